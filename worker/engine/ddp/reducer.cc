#include "worker/engine/ddp/reducer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"

namespace dp::engine {

Reducer::Reducer(Group& group, const ParameterLayout& layout, absl::Span<float> gradients,
                 const ReducerOptions& options, const Clock& clock)
    : group_(group),
      layout_(layout),
      gradients_(gradients),
      options_(options),
      clock_(clock),
      schedule_(PlanBuckets(layout, options.buckets)) {
  DP_CHECK(static_cast<int64_t>(gradients.size()) == layout.size);
}

void Reducer::BeginBackward(Sync sync) {
  DP_CHECK(backward_.works.empty());
  sync_ = sync;
  schedule_.Begin();
  if (sync == Sync::kNo) return;
  backward_.trace.clear();
  Record(TraceEvent::What::kBackwardBegun);
}

void Reducer::GradientReady(int index) {
  const std::vector<int> launch = schedule_.Ready(index);
  if (sync_ == Sync::kNo) return;
  if (!accumulated_.empty()) {
    const Parameter& parameter = layout_.parameters[index];
    const absl::Span<float> gradient = GradientOf(index);
    for (int64_t i = 0; i < parameter.size; ++i) gradient[i] += accumulated_[parameter.offset + i];
  }
  for (int bucket : launch) Launch(bucket);
}

absl::Status Reducer::EndBackward(const Then& then) {
  if (sync_ == Sync::kNo) return Accumulate(CompleteUnready());
  Record(TraceEvent::What::kBackwardEnded);
  absl::Status status = OrderBuckets(CompleteUnready(), then);
  accumulated_.clear();
  Record(TraceEvent::What::kStepEnded);
  unsettled_.push_back(std::exchange(backward_, {}));
  // After an error, too: the buckets in flight own the gradients until they have ended.
  while (!unsettled_.empty() && (!status.ok() || (!options_.gradients_on_device && ended())))
    status.Update(Settle());
  return status;
}

absl::Status Reducer::Accumulate(absl::Status status) {
  DP_RETURN_IF_ERROR(status);
  if (options_.gradients_on_device) {
    return absl::UnimplementedError(
        "gradients on a GPU are not accumulated over several backwards; take the whole batch in "
        "one backward, or compute on CPUs");
  }
  accumulated_.resize(gradients_.size());
  for (size_t i = 0; i < gradients_.size(); ++i) accumulated_[i] += gradients_[i];
  return absl::OkStatus();
}

std::string Reducer::NamesOf(absl::Span<const int> parameters) const {
  return absl::StrJoin(parameters, ", ", [this](std::string* out, int p) {
    absl::StrAppend(out, layout_.parameters[p].name);
  });
}

absl::Span<float> Reducer::GradientOf(int parameter) const {
  const Parameter& p = layout_.parameters[parameter];
  return gradients_.subspan(p.offset, p.size);
}

void Reducer::Launch(int bucket) {
  // Ranks match all-reduces by their order, so every rank must launch the buckets in plan order.
  DP_CHECK(bucket == static_cast<int>(backward_.works.size()));
  const Bucket& range = schedule_.plan()[bucket];
  Record(TraceEvent::What::kBucketLaunched, bucket);
  backward_.works.push_back(
      group_.AllReduce(gradients_.subspan(range.offset, range.size), {ReduceOp::kMean, order_}));
}

absl::Status Reducer::CompleteUnready() {
  const std::vector<int> unready = schedule_.Unready();
  if (unready.empty()) return absl::OkStatus();
  if (!options_.find_unused_parameters)
    return absl::FailedPreconditionError(absl::StrCat(
        "no gradient in this backward for ", NamesOf(unready),
        "; set find_unused_parameters if the loss need not depend on every parameter"));
  if (options_.gradients_on_device)
    return absl::UnimplementedError(absl::StrCat(
        "find_unused_parameters: no gradient in this backward for ", NamesOf(unready),
        ", and on a GPU none is taken for zero; let the loss depend on every parameter, or compute "
        "on CPUs"));
  // Zero is this rank's share of the mean. Other ranks may have used the parameter, and a rank that
  // skipped their all-reduce would hang them.
  for (int parameter : unready) {
    const absl::Span<float> gradient = GradientOf(parameter);
    std::fill(gradient.begin(), gradient.end(), 0.0f);
    GradientReady(parameter);
  }
  return absl::OkStatus();
}

// Orders all buckets, even after an error: none may be left that writes into the gradients unseen.
absl::Status Reducer::OrderBuckets(const absl::Status& before, const Then& then) {
  absl::Status status = before;
  for (size_t b = 0; b < backward_.works.size(); ++b) {
    status.Update(backward_.works[b]->WaitOnStream());
    if (status.ok() && then) status.Update(then(schedule_.plan()[b]));
  }
  return status;
}

// Whether the oldest unsettled backward has nothing in flight.
bool Reducer::ended() const {
  const auto& works = unsettled_.front().works;
  return std::all_of(works.begin(), works.end(), [](const auto& work) { return work->done(); });
}

absl::Status Reducer::Settle() {
  if (unsettled_.empty()) return absl::OkStatus();
  const Backward oldest = std::move(unsettled_.front());
  unsettled_.pop_front();
  trace_ = oldest.trace;
  absl::Status status;
  for (int b = 0; b < static_cast<int>(oldest.works.size()); ++b) {
    // Waits for all, even after one has failed: each may still write into the gradients.
    status.Update(oldest.works[b]->Wait());
    const WorkTimes times = oldest.works[b]->times();
    trace_.push_back({TraceEvent::What::kBucketBegun, times.begun, b});
    trace_.push_back({TraceEvent::What::kBucketEnded, times.ended, b});
  }
  std::stable_sort(trace_.begin(), trace_.end(),
                   [](const auto& a, const auto& b) { return a.time < b.time; });
  return status;
}

void Reducer::Record(TraceEvent::What what, int bucket) {
  backward_.trace.push_back({what, clock_.Now(), bucket});
}

}  // namespace dp::engine

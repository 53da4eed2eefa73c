#include "worker/engine/ddp/reducer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

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
  DP_CHECK(works_.empty());
  sync_ = sync;
  schedule_.Begin();
  if (sync == Sync::kNo) return;
  trace_.clear();
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

absl::Status Reducer::EndBackward() {
  if (sync_ == Sync::kYes) Record(TraceEvent::What::kBackwardEnded);
  absl::Status status = CompleteUnready();
  if (sync_ == Sync::kYes) {
    status.Update(OrderBuckets());
    accumulated_.clear();
    Record(TraceEvent::What::kStepEnded);
    // Also after an error: the buckets under way own the gradients until they have ended.
    const bool ended = std::all_of(ordered_.begin(), ordered_.end(),
                                   [](const auto& work) { return work->done(); });
    if (!status.ok() || ended) status.Update(Settle());
  } else if (options_.gradients_on_device) {
    status.Update(
        absl::UnimplementedError("gradients on a GPU are not accumulated over several backwards; "
                                 "take the whole batch in one "
                                 "backward, or compute on CPUs"));
  } else if (status.ok()) {
    accumulated_.resize(gradients_.size());
    for (size_t i = 0; i < gradients_.size(); ++i) accumulated_[i] += gradients_[i];
  }
  return status;
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
  // Ranks match all-reduces by their order, so every rank must launch the buckets in the plan's.
  DP_CHECK(bucket == static_cast<int>(works_.size()));
  const Bucket& range = schedule_.plan()[bucket];
  Record(TraceEvent::What::kBucketLaunched, bucket);
  works_.push_back(group_.AllReduce(gradients_.subspan(range.offset, range.size), ReduceOp::kMean));
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
  // Zero is this rank's share of the mean: other ranks may have used the parameter, and a rank that
  // did not join their all-reduce would hang them.
  for (int parameter : unready) {
    const absl::Span<float> gradient = GradientOf(parameter);
    std::fill(gradient.begin(), gradient.end(), 0.0f);
    GradientReady(parameter);
  }
  return absl::OkStatus();
}

// The step before is settled only now: by then the device has this one's work to go on with.
absl::Status Reducer::OrderBuckets() {
  absl::Status status;
  for (const std::unique_ptr<Work>& work : works_) status.Update(work->WaitOnStream());
  for (const std::unique_ptr<Work>& work : ordered_) status.Update(work->Wait());
  ordered_ = std::exchange(works_, {});
  return status;
}

absl::Status Reducer::Settle() {
  absl::Status status;
  for (int b = 0; b < static_cast<int>(ordered_.size()); ++b) {
    // All of them, also after one has failed: each may still write into the gradients.
    status.Update(ordered_[b]->Wait());
    const WorkTimes times = ordered_[b]->times();
    trace_.push_back({TraceEvent::What::kBucketBegun, times.begun, b});
    trace_.push_back({TraceEvent::What::kBucketEnded, times.ended, b});
  }
  ordered_.clear();
  std::stable_sort(trace_.begin(), trace_.end(),
                   [](const auto& a, const auto& b) { return a.time < b.time; });
  return status;
}

void Reducer::Record(TraceEvent::What what, int bucket) {
  trace_.push_back({what, clock_.Now(), bucket});
}

}  // namespace dp::engine

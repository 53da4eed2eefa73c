#include "server/parameters/core/gradient_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"
#include "worker/engine/nn/host_optimizer.h"

namespace dp::server {
namespace {

// No rank may have more intervals of gradients that are not durable: it keeps them.
constexpr int64_t kPublishesAhead = 2;

// No early exit, so that the compiler can take several at once.
bool AllFinite(absl::Span<const float> floats) {
  bool finite = true;
  for (const float each : floats) finite &= std::abs(each) <= std::numeric_limits<float>::max();
  return finite;
}

}  // namespace

bool TableProgress::operator==(const TableProgress& other) const {
  return steps == other.steps && training_steps == other.training_steps &&
         gradients_since == other.gradients_since && pushed == other.pushed && tail == other.tail &&
         gradient_norm == other.gradient_norm;
}

GradientTable::GradientTable(TableOptions options, State state)
    : options_(std::move(options)),
      progress_(std::move(state.progress)),
      durable_(std::move(state.durable)),
      pending_(static_cast<size_t>(options_.ranks)),
      values_(std::move(state.values)),
      gradients_(static_cast<size_t>(gradient_size())) {
  DP_CHECK(static_cast<int64_t>(values_.size()) == options_.layout.size);
  progress_.pushed.resize(static_cast<size_t>(options_.ranks));
  optimizer_ = engine::MakeHostOptimizer(
      options_.optimizer, options_.layout, absl::MakeSpan(values_),
      absl::MakeConstSpan(gradients_).first(static_cast<size_t>(options_.layout.size)));
  const std::vector<engine::OptimizerState> own = optimizer_->state();
  DP_CHECK(state.arrays.empty() || state.arrays.size() == own.size());
  for (size_t i = 0; i < state.arrays.size(); ++i) {
    DP_CHECK(state.arrays[i].size() == own[i].values.size());
    std::copy(state.arrays[i].begin(), state.arrays[i].end(), own[i].values.begin());
  }
}

std::vector<std::vector<float>> GradientTable::arrays() const {
  std::vector<std::vector<float>> copies;
  for (const engine::OptimizerState& each : optimizer_->state()) {
    copies.emplace_back(each.values.begin(), each.values.end());
  }
  return copies;
}

uint64_t GradientTable::slowest() const {
  return *std::min_element(progress_.pushed.begin(), progress_.pushed.end());
}

uint64_t GradientTable::NotDurable(int rank) const {
  const auto r = static_cast<size_t>(rank);
  const uint64_t durable = r < durable_.pushed.size() ? durable_.pushed[r] : 0;
  return progress_.pushed[r] - std::min(durable, progress_.pushed[r]);
}

// The gaps between parameters may hold anything.
bool GradientTable::IsFinite(absl::Span<const float> gradient) const {
  bool finite = AllFinite(gradient.subspan(static_cast<size_t>(options_.layout.size)));
  for (const engine::Parameter& each : options_.layout.parameters) {
    finite &= AllFinite(
        gradient.subspan(static_cast<size_t>(each.offset), static_cast<size_t>(each.size)));
  }
  return finite;
}

absl::Status GradientTable::Refusal(const std::vector<int>& ranks) const {
  return absl::OutOfRangeError(absl::StrCat(
      "step ", progress_.steps + 1, ": the gradient or the loss of rank ",
      absl::StrJoin(ranks, ", "),
      " is not finite; lower the learning rate, or look for values in the data that are out of "
      "scale"));
}

absl::Status GradientTable::WhyRefused(int rank, uint64_t number) const {
  return number > progress_.pushed[static_cast<size_t>(rank)] ? refused_ : absl::OkStatus();
}

uint64_t GradientTable::Next(int rank) const {
  const auto r = static_cast<size_t>(rank);
  return progress_.pushed[r] + (pending_[r].there ? 2 : 1);
}

GradientTable::Verdict GradientTable::Judge(int rank, uint64_t number) const {
  const uint64_t next = Next(rank);
  if (number < next) return Verdict::kRepeated;
  if (number > next) return Verdict::kSkips;
  if (pending_[static_cast<size_t>(rank)].there) return Verdict::kAhead;
  return MayPull(rank, number - 1) ? Verdict::kTake : Verdict::kAhead;
}

absl::Status GradientTable::Push(int rank, std::vector<float> gradient, const GradientNote& note) {
  DP_CHECK(Judge(rank, Next(rank)) == Verdict::kTake);
  DP_CHECK(static_cast<int64_t>(gradient.size()) == gradient_size());
  Pending& pending = pending_[static_cast<size_t>(rank)];
  if (!sync()) {
    if (!IsFinite(gradient)) return Refusal({rank});
    ++progress_.pushed[static_cast<size_t>(rank)];
    TakeStep(gradient, note);
    if (note.leaving && progress_.leave_after == 0) NoteLeaving();
    return absl::OkStatus();
  }
  pending = {.there = true, .gradient = std::move(gradient), .note = note};
  const bool all =
      std::all_of(pending_.begin(), pending_.end(), [](const Pending& each) { return each.there; });
  if (!all) return absl::OkStatus();
  refused_ = TakeStepOfAll();
  return refused_;
}

// Some ranks are computing the gradient behind the highest number. All leave after that one.
void GradientTable::NoteLeaving() {
  progress_.leave_after = *std::max_element(progress_.pushed.begin(), progress_.pushed.end()) + 1;
}

absl::Status GradientTable::TakeStepOfAll() {
  std::vector<const void*> inputs;
  std::vector<int> spoilt;
  for (int r = 0; r < options_.ranks; ++r) {
    const std::vector<float>& gradient = pending_[static_cast<size_t>(r)].gradient;
    if (!IsFinite(gradient)) spoilt.push_back(r);
    inputs.push_back(gradient.data());
  }
  if (!spoilt.empty()) return Refusal(spoilt);
  std::vector<float>& mean = pending_.front().gradient;
  engine::ReduceInOrder(inputs, engine::DataType::kFloat32, mean.size(), engine::ReduceOp::kMean,
                        mean.data());
  if (!IsFinite(mean)) {  // the sum overflows
    for (int r = 0; r < options_.ranks; ++r) spoilt.push_back(r);
    return Refusal(spoilt);
  }
  for (uint64_t& number : progress_.pushed) ++number;
  TakeStep(mean, pending_.front().note);
  for (Pending& each : pending_) each = {};
  return absl::OkStatus();
}

void GradientTable::TakeStep(const std::vector<float>& gradient, const GradientNote& note) {
  const auto size = static_cast<size_t>(options_.layout.size);
  std::copy(gradient.begin(), gradient.end(), gradients_.begin());
  optimizer_->Step({.number = ++progress_.steps,
                    .learning_rate_factor =
                        engine::LearningRateFactor(options_.schedule, progress_.training_steps + 1,
                                                   options_.steps_of_epoch, options_.steps_total)});
  if (sync() || ++progress_.gradients_since >= options_.ranks) {
    ++progress_.training_steps;
    progress_.gradients_since = 0;
  }
  progress_.tail.assign(gradient.begin() + static_cast<std::ptrdiff_t>(size), gradient.end());
  progress_.gradient_norm = optimizer_->gradient_norm();
  progress_.note = note;
}

bool GradientTable::MayPull(int rank, uint64_t number) const {
  if (progress_.pushed[static_cast<size_t>(rank)] < number) return false;
  const uint64_t staleness = static_cast<uint64_t>(std::max(options_.max_staleness, 0));
  if (options_.mode == TableMode::kBounded && number > slowest() + staleness) return false;
  return NotDurable(rank) <= static_cast<uint64_t>(kPublishesAhead * options_.publish_every);
}

std::vector<int> GradientTable::MissingFor(int rank, uint64_t number) const {
  std::vector<int> missing;
  const bool waits_for_step = progress_.pushed[static_cast<size_t>(rank)] < number;
  const uint64_t staleness = static_cast<uint64_t>(std::max(options_.max_staleness, 0));
  for (int r = 0; r < options_.ranks; ++r) {
    const auto i = static_cast<size_t>(r);
    const bool late =
        sync() ? waits_for_step && !pending_[i].there
               : options_.mode == TableMode::kBounded && number > progress_.pushed[i] + staleness;
    if (late) missing.push_back(r);
  }
  return missing;
}

bool GradientTable::PublishDue() const {
  if (publishes_) return false;
  if (durable_.steps < 0) return true;
  uint64_t kept_most = 0;
  for (int r = 0; r < options_.ranks; ++r) kept_most = std::max(kept_most, NotDurable(r));
  return kept_most >= static_cast<uint64_t>(options_.publish_every);
}

TableProgress GradientTable::BeginPublish() {
  publishes_ = true;
  publishing_ = progress_;
  return publishing_;
}

void GradientTable::EndPublish(bool durable) {
  if (!std::exchange(publishes_, false)) return;
  if (durable && publishing_.steps > durable_.steps) durable_ = publishing_;
}

std::vector<std::string> ArrayNames(const engine::OptimizerOptions& options) {
  std::vector<float> none;
  const engine::ParameterLayout empty;
  const auto optimizer = engine::MakeHostOptimizer(options, empty, absl::MakeSpan(none), none);
  std::vector<std::string> names;
  for (const engine::OptimizerState& each : optimizer->state()) names.emplace_back(each.name);
  return names;
}

TableProgress ForRanks(TableProgress progress, int ranks) {
  progress.leave_after = 0;
  const auto count = static_cast<size_t>(ranks);
  if (progress.pushed.size() == count) return progress;
  if (!progress.pushed.empty()) {  // the same part of a step of the training
    const auto before = static_cast<int64_t>(progress.pushed.size());
    progress.gradients_since = progress.gradients_since * ranks / before;
  }
  uint64_t total = 0;
  for (const uint64_t number : progress.pushed) total += number;
  const uint64_t before = progress.pushed.empty() ? 0 : total / progress.pushed.size();
  progress.pushed.assign(count, before);
  return progress;
}

}  // namespace dp::server

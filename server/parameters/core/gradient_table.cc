#include "server/parameters/core/gradient_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"
#include "worker/engine/nn/host_optimizer.h"

namespace dp::server {
namespace {

// A state that nobody may outrun: ranks keep their gradients since the durable state.
constexpr int64_t kPublishesAhead = 2;

}  // namespace

bool TableProgress::operator==(const TableProgress& other) const {
  return steps == other.steps && pushed == other.pushed && tail == other.tail &&
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

int64_t GradientTable::OptimizerSteps(int64_t steps) const {
  return sync() ? steps : steps * options_.ranks;
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

void GradientTable::Push(int rank, std::vector<float> gradient, const GradientNote& note) {
  DP_CHECK(Judge(rank, Next(rank)) == Verdict::kTake);
  DP_CHECK(static_cast<int64_t>(gradient.size()) == gradient_size());
  Pending& pending = pending_[static_cast<size_t>(rank)];
  if (!sync()) {
    ++progress_.pushed[static_cast<size_t>(rank)];
    TakeStep(gradient, note);
    if (note.leaving && progress_.leave_after == 0) NoteLeaving();
    return;
  }
  pending = {.there = true, .gradient = std::move(gradient), .note = note};
  const bool all =
      std::all_of(pending_.begin(), pending_.end(), [](const Pending& each) { return each.there; });
  if (all) TakeStepOfAll();
}

// Some ranks are computing the gradient behind the highest number. All leave after that one.
void GradientTable::NoteLeaving() {
  progress_.leave_after = *std::max_element(progress_.pushed.begin(), progress_.pushed.end()) + 1;
}

void GradientTable::TakeStepOfAll() {
  std::vector<const void*> inputs;
  for (const Pending& each : pending_) inputs.push_back(each.gradient.data());
  std::vector<float>& mean = pending_.front().gradient;
  engine::ReduceInOrder(inputs, engine::DataType::kFloat32, mean.size(), engine::ReduceOp::kMean,
                        mean.data());
  for (uint64_t& number : progress_.pushed) ++number;
  TakeStep(mean, pending_.front().note);
  for (Pending& each : pending_) each = {};
}

void GradientTable::TakeStep(std::vector<float>& gradient, const GradientNote& note) {
  const auto size = static_cast<size_t>(options_.layout.size);
  std::copy(gradient.begin(), gradient.end(), gradients_.begin());
  const int64_t number = ++progress_.steps;
  const int64_t step_of_training = sync() ? number : (number - 1) / options_.ranks + 1;
  optimizer_->Step(
      {.number = number,
       .learning_rate_factor = engine::LearningRateFactor(
           options_.schedule, step_of_training, options_.steps_of_epoch, options_.steps_total)});
  progress_.tail.assign(gradient.begin() + static_cast<std::ptrdiff_t>(size), gradient.end());
  progress_.gradient_norm = optimizer_->gradient_norm();
  progress_.note = note;
}

bool GradientTable::MayPull(int rank, uint64_t number) const {
  if (progress_.pushed[static_cast<size_t>(rank)] < number) return false;
  const uint64_t staleness = static_cast<uint64_t>(std::max(options_.max_staleness, 0));
  if (options_.mode == TableMode::kBounded && number > slowest() + staleness) return false;
  const int64_t ahead = OptimizerSteps(kPublishesAhead * options_.publish_every);
  return progress_.steps <= std::max<int64_t>(durable_.steps, 0) + ahead;
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
  const int64_t since = progress_.steps - std::max<int64_t>(durable_.steps, 0);
  return !publishes_ && (durable_.steps < 0 || since >= OptimizerSteps(options_.publish_every));
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
  uint64_t total = 0;
  for (const uint64_t number : progress.pushed) total += number;
  const uint64_t before = progress.pushed.empty() ? 0 : total / progress.pushed.size();
  progress.pushed.assign(count, before);
  return progress;
}

}  // namespace dp::server

#include "server/parameters/table_settings.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/limits.h"
#include "base/status.h"
#include "google/protobuf/util/message_differencer.h"

namespace dp::server {
namespace {

// Bounds far above any model, and far below an overflow.
constexpr int64_t kFloatsMax = int64_t{1} << 40;
constexpr int kRanksMax = 1'000'000;
constexpr int64_t kTailMax = 64;
constexpr int64_t kStepsMax = int64_t{1} << 40;  // times kRanksMax, it fits as well

absl::Status Wrong(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("settings.", field, ": ", what));
}

engine::LearningRateSchedule ScheduleOf(const v1::TableSchedule& from) {
  engine::LearningRateSchedule schedule = {.warmup_steps = from.warmup_steps()};
  switch (from.decay_case()) {
    case v1::TableSchedule::kCosine:
      schedule.decay = engine::CosineDecay{from.cosine().factor_min(), from.cosine().steps()};
      break;
    case v1::TableSchedule::kLinear:
      schedule.decay = engine::LinearDecay{from.linear().factor_min(), from.linear().steps()};
      break;
    case v1::TableSchedule::kStep:
      schedule.decay = engine::StepDecay{from.step().every_steps(), from.step().every_epochs(),
                                         from.step().factor()};
      break;
    case v1::TableSchedule::kMultiStep: {
      const v1::TableSchedule::Steps& steps = from.multi_step();
      schedule.decay =
          engine::MultiStepDecay{.at_steps = {steps.at_steps().begin(), steps.at_steps().end()},
                                 .at_epochs = {steps.at_epochs().begin(), steps.at_epochs().end()},
                                 .factor = steps.factor()};
      break;
    }
    case v1::TableSchedule::DECAY_NOT_SET:
      break;
  }
  return schedule;
}

engine::OptimizerOptions OptimizerOf(const v1::TableOptimizer& from) {
  engine::OptimizerOptions options = {.clip_norm = from.clip_norm()};
  if (from.has_adamw()) {
    const v1::TableOptimizer::AdamW& adamw = from.adamw();
    options.update = engine::AdamWOptions{.learning_rate = adamw.learning_rate(),
                                          .beta1 = adamw.beta1(),
                                          .beta2 = adamw.beta2(),
                                          .epsilon = adamw.epsilon(),
                                          .weight_decay = adamw.weight_decay(),
                                          .decay_all = adamw.decay_all(),
                                          .decay_in_gradient = adamw.decay_in_gradient()};
  } else {
    options.update = engine::SgdOptions{.learning_rate = from.sgd().learning_rate(),
                                        .momentum = from.sgd().momentum(),
                                        .weight_decay = from.sgd().weight_decay(),
                                        .nesterov = from.sgd().nesterov()};
  }
  return options;
}

engine::Parameter ParameterOf(const v1::TableParameter& from) {
  engine::Parameter parameter = {
      .name = from.name(),
      .shape = {from.shape().begin(), from.shape().end()},
      .offset = from.offset(),
      .size = from.size(),
      .options = {.learning_rate_factor = from.learning_rate_factor(), .frozen = from.frozen()},
      .momentum = from.momentum()};
  if (from.has_weight_decay()) parameter.options.weight_decay = from.weight_decay();
  return parameter;
}

absl::Status CheckFinite(absl::string_view field, std::initializer_list<double> numbers) {
  for (const double number : numbers) {
    if (!std::isfinite(number)) return Wrong(field, absl::StrCat(number, " is no finite number"));
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const v1::TableSettings& settings) {
  const v1::TableOptimizer::Sgd& sgd = settings.optimizer().sgd();
  const v1::TableOptimizer::AdamW& adamw = settings.optimizer().adamw();
  const v1::TableSchedule& schedule = settings.schedule();
  DP_RETURN_IF_ERROR(CheckFinite(
      "optimizer", {settings.optimizer().clip_norm(), sgd.learning_rate(), sgd.momentum(),
                    sgd.weight_decay(), adamw.learning_rate(), adamw.beta1(), adamw.beta2(),
                    adamw.epsilon(), adamw.weight_decay()}));
  DP_RETURN_IF_ERROR(
      CheckFinite("schedule", {schedule.cosine().factor_min(), schedule.linear().factor_min(),
                               schedule.step().factor(), schedule.multi_step().factor()}));
  for (const v1::TableParameter& each : settings.parameters()) {
    DP_RETURN_IF_ERROR(CheckFinite(
        "parameters", {each.learning_rate_factor(), each.weight_decay(), each.momentum()}));
  }
  return absl::OkStatus();
}

// Parameters lie in their order, do not overlap, and have as many values as their shape says.
absl::Status CheckLayout(const v1::TableSettings& settings) {
  int64_t end = 0;
  for (const v1::TableParameter& each : settings.parameters()) {
    const bool inside = each.offset() >= end && each.size() >= 0 &&
                        each.size() <= settings.size() - std::min(each.offset(), settings.size());
    if (!inside) return Wrong("parameters", absl::StrCat(each.name(), " lies outside its place"));
    int64_t values = 1;
    for (const int64_t extent : each.shape()) {
      if (extent < 0 || (extent > 0 && values > kFloatsMax / extent)) {
        return Wrong("parameters", absl::StrCat(each.name(), " has no valid shape"));
      }
      values *= extent;
    }
    if (values != each.size()) {
      return Wrong("parameters", absl::StrCat(each.name(), " has ", each.size(),
                                              " values, but its shape needs ", values));
    }
    end = each.offset() + each.size();
  }
  return absl::OkStatus();
}

absl::Status CheckCount(absl::string_view field, int64_t count, int64_t min) {
  if (count >= min && count <= kStepsMax) return absl::OkStatus();
  return Wrong(field, absl::StrCat(count, " is not from ", min, " to ", kStepsMax));
}

absl::Status CheckMarks(absl::string_view field,
                        const google::protobuf::RepeatedField<int64_t>& marks) {
  for (const int64_t mark : marks) DP_RETURN_IF_ERROR(CheckCount(field, mark, 0));
  return absl::OkStatus();
}

// Rejects schedules that would divide by zero, run back in time, or overflow.
absl::Status CheckSchedule(const v1::TableSchedule& schedule) {
  DP_RETURN_IF_ERROR(CheckCount("schedule.steps_of_epoch", schedule.steps_of_epoch(), 1));
  DP_RETURN_IF_ERROR(CheckCount("schedule.steps_total", schedule.steps_total(), 1));
  DP_RETURN_IF_ERROR(CheckCount("schedule.warmup_steps", schedule.warmup_steps(), 0));
  DP_RETURN_IF_ERROR(CheckCount("schedule.cosine.steps", schedule.cosine().steps(), 0));
  DP_RETURN_IF_ERROR(CheckCount("schedule.linear.steps", schedule.linear().steps(), 0));
  const v1::TableSchedule::Steps& step = schedule.step();
  DP_RETURN_IF_ERROR(CheckCount("schedule.step.every_steps", step.every_steps(), 0));
  DP_RETURN_IF_ERROR(CheckCount("schedule.step.every_epochs", step.every_epochs(), 0));
  if (schedule.has_step() && step.every_steps() + step.every_epochs() < 1) {
    return Wrong("schedule.step", "every_steps or every_epochs must be at least 1");
  }
  const v1::TableSchedule::Steps& marks = schedule.multi_step();
  DP_RETURN_IF_ERROR(CheckMarks("schedule.multi_step.at_steps", marks.at_steps()));
  return CheckMarks("schedule.multi_step.at_epochs", marks.at_epochs());
}

absl::Status Check(const v1::TableSettings& settings) {
  if (settings.mode() != v1::TABLE_MODE_SYNC && settings.mode() != v1::TABLE_MODE_ASYNC &&
      settings.mode() != v1::TABLE_MODE_BOUNDED) {
    return Wrong("mode", "it is none of SYNC, ASYNC and BOUNDED");
  }
  if (settings.ranks() < 1 || settings.ranks() > kRanksMax) {
    return Wrong("ranks", absl::StrCat(settings.ranks(), " is not from 1 to ", kRanksMax));
  }
  if (settings.size() < 1 || settings.size() > kFloatsMax) {
    return Wrong("size", absl::StrCat(settings.size(), " is not from 1 to ", kFloatsMax));
  }
  if (settings.tail() < 0 || settings.tail() > kTailMax) {
    return Wrong("tail", absl::StrCat(settings.tail(), " is not from 0 to ", kTailMax));
  }
  if (settings.max_staleness() < 0) return Wrong("max_staleness", "it is below 0");
  DP_RETURN_IF_ERROR(CheckCount("publish_every", settings.publish_every(), 1));
  DP_RETURN_IF_ERROR(CheckSchedule(settings.schedule()));
  if (settings.parameters_size() > kParameterTensorsMax) return Wrong("parameters", "too many");
  DP_RETURN_IF_ERROR(CheckNumbers(settings));
  return CheckLayout(settings);
}

}  // namespace

absl::StatusOr<TableOptions> OptionsOf(const v1::TableSettings& settings) {
  DP_RETURN_IF_ERROR(Check(settings));
  TableOptions options;
  options.mode = settings.mode() == v1::TABLE_MODE_SYNC    ? TableMode::kSync
                 : settings.mode() == v1::TABLE_MODE_ASYNC ? TableMode::kAsync
                                                           : TableMode::kBounded;
  options.ranks = settings.ranks();
  options.max_staleness = settings.max_staleness();
  options.publish_every = settings.publish_every();
  for (const v1::TableParameter& each : settings.parameters()) {
    options.layout.parameters.push_back(ParameterOf(each));
  }
  options.layout.size = settings.size();
  options.tail = settings.tail();
  options.optimizer = OptimizerOf(settings.optimizer());
  options.schedule = ScheduleOf(settings.schedule());
  options.steps_of_epoch = settings.schedule().steps_of_epoch();
  options.steps_total = settings.schedule().steps_total();
  return options;
}

uint64_t MemoryOf(const TableOptions& options) {
  const auto ranks = static_cast<uint64_t>(options.ranks);
  const uint64_t copies = options.mode == TableMode::kSync ? 2 : ranks + 1;
  const uint64_t arrays = 2 * ArrayNames(options.optimizer).size();  // and a copy to publish
  const auto size = static_cast<uint64_t>(options.layout.size);
  const auto gradient = static_cast<uint64_t>(options.layout.size + options.tail);
  return sizeof(float) * (size * (1 + copies + arrays) + gradient * (ranks + 1));
}

absl::Status CheckSame(const v1::TableSettings& before, const v1::TableSettings& now) {
  v1::TableSettings same = before;
  same.set_ranks(now.ranks());
  if (google::protobuf::util::MessageDifferencer::Equals(same, now)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the job's table was made with other settings: another model, optimizer, schedule or mode; "
      "submit a new job for them");
}

v1::TableState ToProto(const TableProgress& progress, const TableProgress& durable) {
  v1::TableState state;
  state.set_steps(progress.steps);
  state.mutable_tail()->Assign(progress.tail.begin(), progress.tail.end());
  state.set_gradient_norm(progress.gradient_norm);
  state.set_epoch_loss_sum(progress.note.epoch_loss_sum);
  state.set_epoch_samples(progress.note.epoch_samples);
  state.set_samples(progress.note.samples);
  state.set_leave_after(progress.leave_after);
  state.mutable_durable_by_rank()->Assign(durable.pushed.begin(), durable.pushed.end());
  return state;
}

TableProgress ProgressOf(const parameters::StoredTable& stored) {
  const v1::TableState& state = stored.state();
  const int64_t gradients =
      stored.settings().mode() == v1::TABLE_MODE_SYNC ? 1 : std::max(stored.settings().ranks(), 1);
  const bool known = stored.has_training_steps();
  return {.steps = state.steps(),
          .training_steps = known ? stored.training_steps() : state.steps() / gradients,
          .gradients_since = known ? stored.gradients_since() : state.steps() % gradients,
          .pushed = {stored.pushed().begin(), stored.pushed().end()},
          .tail = {state.tail().begin(), state.tail().end()},
          .gradient_norm = state.gradient_norm(),
          .note = {.epoch_loss_sum = state.epoch_loss_sum(),
                   .epoch_samples = state.epoch_samples(),
                   .samples = state.samples()}};
}

}  // namespace dp::server

#include "worker/trainer/loop/table_link.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/overloaded.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/nn/learning_rate.h"

namespace dp::trainer {
namespace {

// The memory that a rank may take for gradients which are not durable yet. A model whose gradients
// are large publishes more often.
constexpr int64_t kKeptBytesMax = int64_t{256} << 20;
// A rank that keeps more gradients than those of two intervals must wait for the durable state. One
// more is on its way.
constexpr int64_t kIntervalsKept = 3;

int64_t PublishEvery(int64_t wanted, int64_t floats) {
  const int64_t bytes = floats * static_cast<int64_t>(sizeof(float)) * kIntervalsKept;
  return std::clamp<int64_t>(kKeptBytesMax / bytes, 1, wanted);
}

v1::TableMode ModeOf(TablePlan::Mode mode) {
  switch (mode) {
    case TablePlan::Mode::kSync:
      return v1::TABLE_MODE_SYNC;
    case TablePlan::Mode::kAsync:
      return v1::TABLE_MODE_ASYNC;
    case TablePlan::Mode::kBounded:
      return v1::TABLE_MODE_BOUNDED;
  }
  return v1::TABLE_MODE_UNSPECIFIED;
}

void FillOptimizer(const TrainingPlan& plan, v1::TableOptimizer* to) {
  to->set_clip_norm(plan.clip_norm);
  std::visit(Overloaded{[to](const engine::SgdOptions& sgd) {
                          v1::TableOptimizer::Sgd* const out = to->mutable_sgd();
                          out->set_learning_rate(sgd.learning_rate);
                          out->set_momentum(sgd.momentum);
                          out->set_weight_decay(sgd.weight_decay);
                          out->set_nesterov(sgd.nesterov);
                        },
                        [to](const engine::AdamWOptions& adamw) {
                          v1::TableOptimizer::AdamW* const out = to->mutable_adamw();
                          out->set_learning_rate(adamw.learning_rate);
                          out->set_beta1(adamw.beta1);
                          out->set_beta2(adamw.beta2);
                          out->set_epsilon(adamw.epsilon);
                          out->set_weight_decay(adamw.weight_decay);
                          out->set_decay_all(adamw.decay_all);
                          out->set_decay_in_gradient(adamw.decay_in_gradient);
                        }},
             plan.optimizer);
}

template <typename Decay>
void FillDecay(const Decay& from, v1::TableSchedule::Decay* to) {
  to->set_factor_min(from.factor_min);
  to->set_steps(from.steps);
}

void FillSchedule(const engine::LearningRateSchedule& from, v1::TableSchedule* to) {
  to->set_warmup_steps(from.warmup_steps);
  std::visit(
      Overloaded{[](std::monostate) {},
                 [to](const engine::CosineDecay& decay) { FillDecay(decay, to->mutable_cosine()); },
                 [to](const engine::LinearDecay& decay) { FillDecay(decay, to->mutable_linear()); },
                 [to](const engine::StepDecay& decay) {
                   to->mutable_step()->set_every_steps(decay.every_steps);
                   to->mutable_step()->set_every_epochs(decay.every_epochs);
                   to->mutable_step()->set_factor(decay.factor);
                 },
                 [to](const engine::MultiStepDecay& decay) {
                   v1::TableSchedule::Steps* const steps = to->mutable_multi_step();
                   steps->mutable_at_steps()->Assign(decay.at_steps.begin(), decay.at_steps.end());
                   steps->mutable_at_epochs()->Assign(decay.at_epochs.begin(),
                                                      decay.at_epochs.end());
                   steps->set_factor(decay.factor);
                 }},
      from.decay);
}

}  // namespace

v1::TableSettings TableSettingsOf(const TrainingPlan& plan, const engine::ParameterLayout& layout,
                                  int ranks, int64_t steps_of_epoch, int64_t steps_total) {
  DP_CHECK(plan.table.has_value());
  v1::TableSettings settings;
  settings.set_mode(ModeOf(plan.table->mode));
  settings.set_ranks(ranks);
  settings.set_max_staleness(plan.table->max_staleness);
  settings.set_publish_every(PublishEvery(plan.table->publish_every, layout.size));
  settings.set_size(layout.size);
  settings.set_tail(engine::kStepTailSize);
  for (const engine::Parameter& each : layout.parameters) {
    v1::TableParameter* const to = settings.add_parameters();
    to->set_name(each.name);
    to->mutable_shape()->Assign(each.shape.begin(), each.shape.end());
    to->set_offset(each.offset);
    to->set_size(each.size);
    to->set_learning_rate_factor(each.options.learning_rate_factor);
    if (each.options.weight_decay) to->set_weight_decay(*each.options.weight_decay);
    to->set_frozen(each.options.frozen);
    to->set_momentum(each.momentum);
  }
  FillOptimizer(plan, settings.mutable_optimizer());
  FillSchedule(plan.schedule, settings.mutable_schedule());
  settings.mutable_schedule()->set_steps_of_epoch(steps_of_epoch);
  settings.mutable_schedule()->set_steps_total(steps_total);
  return settings;
}

Position PositionIn(const v1::TableState& state, uint64_t number, int64_t steps_of_epoch) {
  if (number == 0) return {};
  const auto step = static_cast<int64_t>(number);
  Position at = {.step = step,
                 .epoch = static_cast<int>((step - 1) / steps_of_epoch) + 1,
                 .step_of_epoch = (step - 1) % steps_of_epoch + 1};
  if (at.step_of_epoch > 1) {
    at.epoch_loss_sum = state.epoch_loss_sum();
    at.epoch_samples = state.epoch_samples();
  }
  if (state.tail_size() > 0) {
    at.epoch_loss_sum += double{state.tail(0)} * static_cast<double>(state.samples());
  }
  at.epoch_samples += state.samples();
  return at;
}

TableLink::TableLink(const TrainingPlan& plan, const Environment& environment, RankModel& model,
                     const v1::TableSettings& settings, client::Connection& connection,
                     client::Pause& pause, const Clock& clock)
    : model_(model),
      sync_(settings.mode() == v1::TABLE_MODE_SYNC),
      steps_of_epoch_(settings.schedule().steps_of_epoch()),
      environment_(environment),
      table_({.job = environment.job.value(),
              .generation = environment.generation.value(),
              .rank = environment.rank,
              .settings = settings,
              .detect_within = plan.detect_within},
             connection, pause, clock),
      values_(static_cast<size_t>(model.layout.size)),
      gradient_(static_cast<size_t>(model.averaged.size)) {}

absl::StatusOr<Position> TableLink::Join() {
  DP_ASSIGN_OR_RETURN(const v1::OpenTableResponse opened, table_.Open());
  if (opened.initial() && environment_.rank == 0) {
    model_.device->Read(model_.values->span(), absl::MakeSpan(values_));
    DP_RETURN_IF_ERROR(model_.device->status());
    DP_RETURN_IF_ERROR(table_.Begin(values_));
  }
  number_ = opened.initial() ? 0 : opened.next() - 1;
  DP_ASSIGN_OR_RETURN(const v1::TableState state,
                      Got(table_.Pull(number_, absl::MakeSpan(values_))));
  return PositionIn(state, number_, steps_of_epoch_);
}

absl::StatusOr<engine::StepTail> TableLink::Step(const Position& at, int64_t samples) {
  model_.device->Read(model_.gradients->span(), absl::MakeSpan(gradient_));
  DP_RETURN_IF_ERROR(model_.device->status());
  const float own_loss = gradient_[static_cast<size_t>(model_.layout.size)];
  const bool leaving = gradient_[static_cast<size_t>(model_.layout.size) + 1] > 0;
  number_ = static_cast<uint64_t>(at.step) + 1;
  const client::GradientNote note = {.epoch_loss_sum = at.epoch_loss_sum,
                                     .epoch_samples = at.epoch_samples,
                                     .samples = samples,
                                     .leaving = leaving};
  DP_ASSIGN_OR_RETURN(const v1::TableState state,
                      Got(table_.Step(number_, gradient_, note, absl::MakeSpan(values_))));
  // Without a step of all ranks, each knows its own loss only.
  if (!sync_) {
    const bool leave = state.leave_after() != 0 && number_ >= state.leave_after();
    return engine::StepTail{
        .loss = own_loss, .leaving = leave ? 1.0f : 0.0f, .gradient_norm = state.gradient_norm()};
  }
  if (state.tail_size() != engine::kStepTailSize) {
    return absl::InternalError("the table has answered without the tail of its step");
  }
  return engine::StepTail{
      .loss = state.tail(0), .leaving = state.tail(1), .gradient_norm = state.gradient_norm()};
}

absl::Status TableLink::Refresh() {
  return Got(table_.Pull(number_, absl::MakeSpan(values_))).status();
}

// Moves the values that came to the device, or adds the ranks that are missing to the error.
absl::StatusOr<v1::TableState> TableLink::Got(absl::StatusOr<v1::TableState> state) {
  if (!state.ok()) return engine::WithMissing(state.status(), table_.missing());
  model_.device->Write(values_, model_.values->span());
  DP_RETURN_IF_ERROR(model_.device->status());
  return state;
}

absl::Status TableLink::Publish(bool done) { return table_.Publish(/*close=*/done).status(); }

}  // namespace dp::trainer

#include "worker/trainer/model/schedule_plan.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/overloaded.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {
namespace {

constexpr double kFactorDefault = 0.1;

engine::StepDecay StepDecayOf(const v1::StepDecaySpec& spec) {
  return {.every_steps = spec.every_steps(),
          .every_epochs = spec.every_epochs(),
          .factor = spec.has_factor() ? spec.factor() : kFactorDefault};
}

engine::MultiStepDecay MultiStepDecayOf(const v1::MultiStepDecaySpec& spec) {
  return {.at_steps = {spec.at_steps().begin(), spec.at_steps().end()},
          .at_epochs = {spec.at_epochs().begin(), spec.at_epochs().end()},
          .factor = spec.has_factor() ? spec.factor() : kFactorDefault};
}

std::string FallName(absl::string_view kind, const auto& decay) {
  return absl::StrCat(kind, " to ", decay.factor_min,
                      decay.steps > 0 ? absl::StrCat(" in ", decay.steps, " steps") : "");
}

std::string DecayName(const engine::StepDecay& decay) {
  const bool steps = decay.every_steps > 0;
  return absl::StrCat("times ", decay.factor, " every ",
                      steps ? decay.every_steps : decay.every_epochs, steps ? " steps" : " epochs");
}

std::string DecayName(const engine::MultiStepDecay& decay) {
  const bool steps = !decay.at_steps.empty();
  return absl::StrCat("times ", decay.factor, steps ? " at steps " : " at epochs ",
                      absl::StrJoin(steps ? decay.at_steps : decay.at_epochs, ", "));
}

}  // namespace

engine::LearningRateSchedule ScheduleOf(const v1::ScheduleSpec& spec) {
  engine::LearningRateSchedule schedule = {.warmup_steps = spec.warmup_steps()};
  if (spec.has_cosine())
    schedule.decay = engine::CosineDecay{spec.cosine().min_factor(), spec.cosine().steps()};
  if (spec.has_linear())
    schedule.decay = engine::LinearDecay{spec.linear().min_factor(), spec.linear().steps()};
  if (spec.has_step()) schedule.decay = StepDecayOf(spec.step());
  if (spec.has_multi_step()) schedule.decay = MultiStepDecayOf(spec.multi_step());
  return schedule;
}

std::string NameOf(const engine::LearningRateSchedule& schedule) {
  const std::string decay = std::visit(
      Overloaded{[](std::monostate) { return std::string("constant"); },
                 [](const engine::CosineDecay& each) { return FallName("cosine", each); },
                 [](const engine::LinearDecay& each) { return FallName("linear", each); },
                 [](const auto& each) { return DecayName(each); }},
      schedule.decay);
  if (schedule.warmup_steps == 0) return decay;
  return absl::StrCat(schedule.warmup_steps, " warmupSteps, then ", decay);
}

}  // namespace dp::trainer

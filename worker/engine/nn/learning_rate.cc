#include "worker/engine/nn/learning_rate.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/overloaded.h"

namespace dp::engine {
namespace {

// The place of a step in its training.
struct Place {
  int64_t done = 0;          // steps before this one
  int64_t epochs_done = 0;   // epochs before its own
  int64_t since_warmup = 0;  // as `done`, from the end of the warm-up; 0 before that
  int64_t after_warmup = 1;  // steps of the training after the warm-up
};

// How far a decay over `steps` steps is at `place`: 0 at its beginning, 1 at its end.
double ShareDone(int64_t steps, const Place& place) {
  const int64_t all = steps > 0 ? steps : place.after_warmup;
  return static_cast<double>(std::min(place.since_warmup, all)) / static_cast<double>(all);
}

double FactorAt(const CosineDecay& decay, const Place& place) {
  const double share = ShareDone(decay.steps, place);
  return decay.factor_min + (1 - decay.factor_min) * (1 + std::cos(M_PI * share)) / 2;
}

double FactorAt(const LinearDecay& decay, const Place& place) {
  return 1 + (decay.factor_min - 1) * ShareDone(decay.steps, place);
}

double FactorAt(const StepDecay& decay, const Place& place) {
  const int64_t times = decay.every_steps > 0 ? place.done / decay.every_steps
                                              : place.epochs_done / decay.every_epochs;
  return std::pow(decay.factor, static_cast<double>(times));
}

double FactorAt(const MultiStepDecay& decay, const Place& place) {
  const auto passed = [](const std::vector<int64_t>& marks, int64_t done) {
    return absl::c_count_if(marks, [done](int64_t mark) { return mark <= done; });
  };
  const auto times = decay.at_steps.empty() ? passed(decay.at_epochs, place.epochs_done)
                                            : passed(decay.at_steps, place.done);
  return std::pow(decay.factor, static_cast<double>(times));
}

double WarmUpAt(int64_t warmup_steps, int64_t step) {
  if (step >= warmup_steps) return 1;
  return static_cast<double>(step) / static_cast<double>(warmup_steps);
}

}  // namespace

double LearningRateFactor(const LearningRateSchedule& schedule, int64_t step,
                          int64_t steps_of_epoch, int64_t steps_total) {
  DP_CHECK(step >= 1 && steps_of_epoch >= 1);
  const Place place = {.done = step - 1,
                       .epochs_done = (step - 1) / steps_of_epoch,
                       .since_warmup = std::max<int64_t>(0, step - 1 - schedule.warmup_steps),
                       .after_warmup = std::max<int64_t>(1, steps_total - schedule.warmup_steps)};
  const double decay =
      std::visit(Overloaded{[](std::monostate) { return 1.0; },
                            [&](const auto& each) { return FactorAt(each, place); }},
                 schedule.decay);
  return decay * WarmUpAt(schedule.warmup_steps, step);
}

}  // namespace dp::engine

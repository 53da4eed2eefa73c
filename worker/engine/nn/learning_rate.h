#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace dp::engine {

// How the learning rate changes from step to step. Positions in steps and epochs count from the
// beginning of the training, unless they say otherwise. Pure values.

// torch's CosineAnnealingLR: falls from 1 after the warm-up to `factor_min`. It takes `steps`
// steps; 0: those that are left of the training. Later steps take `factor_min`.
struct CosineDecay {
  double factor_min = 0;
  int64_t steps = 0;
};
// torch's LinearLR from 1: as CosineDecay, in a straight line.
struct LinearDecay {
  double factor_min = 0;
  int64_t steps = 0;
};
// torch's StepLR: multiplies the rate by `factor` after each so many steps or epochs.
struct StepDecay {
  int64_t every_steps = 0;  // 0: by epochs
  int64_t every_epochs = 0;
  double factor = 0.1;
};
// torch's MultiStepLR: multiplies the rate by `factor` after each of these steps or epochs.
struct MultiStepDecay {
  std::vector<int64_t> at_steps;  // empty: by epochs
  std::vector<int64_t> at_epochs;
  double factor = 0.1;
};

struct LearningRateSchedule {
  // Step k of the first so many, counted from 1, takes k / warmup_steps of the rate. This is
  // LinearLR with start_factor 1 / warmup_steps and warmup_steps - 1 iterations.
  int64_t warmup_steps = 0;
  std::variant<std::monostate, CosineDecay, LinearDecay, StepDecay, MultiStepDecay> decay;
};

// The part of the learning rate that step `step`, counted from 1, takes. The training has
// `steps_total` steps, and an epoch `steps_of_epoch`.
double LearningRateFactor(const LearningRateSchedule& schedule, int64_t step,
                          int64_t steps_of_epoch, int64_t steps_total);

}  // namespace dp::engine

#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/engine/nn/adamw.h"
#include "worker/engine/nn/sgd.h"

// The optimizer of a training, as every device and the parameter service have it.

namespace dp::engine {

struct OptimizerOptions {
  std::variant<SgdOptions, AdamWOptions> update;
  // Above 0: a step whose gradients have a larger norm over all parameters takes them times
  // ClipFactor (clip_factor.h). The gradients themselves stay.
  double clip_norm = 0;
  // Above 0: an average of the values follows them after each step (moving_average.h). It is the
  // last array of state(), "ema".
  double average_decay = 0;
};

// The inputs of an optimizer's step that change from step to step, beside the gradients.
struct OptimizerStep {
  int64_t number = 1;               // counted from 1 since the training began
  double learning_rate_factor = 1;  // of the options' learning rate (learning_rate.h)
};

// One array of an optimizer's state between steps.
struct OptimizerState {
  absl::string_view name;  // PyTorch's: "velocity", "exp_avg", "exp_avg_sq"; "ema"
  absl::Span<float> values;
};

// The name of the average of the values.
inline constexpr char kAverageName[] = "ema";

// Updates values from gradients.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void Step(const OptimizerStep& step) = 0;
  // With clip_norm: the norm of the gradients in the latest step, before they were clipped. May
  // wait for the device.
  virtual float gradient_norm() const = 0;
  // The arrays of its state between steps, each in the layout of the values. A training resumed
  // from values, state and number takes the same steps. On a device other than the CPU, only its
  // kernels and collectives may use the addresses.
  virtual std::vector<OptimizerState> state() = 0;
};

}  // namespace dp::engine

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/device.h"

namespace dp::engine::cuda {

// The measured time of all operations of one name, together; beside CostRow's expectation.
struct TimeRow {
  std::string name;  // as Describe gives it, or "optimizer"
  double seconds = 0;
};

struct StepTiming {
  bool adamw = false;  // the optimizer; otherwise SGD with momentum
  int rounds = 10;     // steps, of which each operation's median counts
};

// Takes steps on the first GPU, with random inputs, and measures each operation by an event before
// it and one behind. The rows are in the order of their operations' first use; gathering is not
// among them. The sum is more than the time of a captured step, in which small kernels follow one
// another without a gap.
// Errors: as OpenCuda's and Device::Compile's.
absl::StatusOr<std::vector<TimeRow>> MeasureStep(absl::Span<const model::CheckedLayer> layers,
                                                 const NetworkOptions& options,
                                                 const StepTiming& timing);

}  // namespace dp::engine::cuda

#include "worker/engine/device/cuda/step/cuda_step_times.h"

namespace dp::engine::cuda {

// For programs that do not link dp_engine_cuda, whose definition takes precedence.
absl::StatusOr<std::vector<TimeRow>> MeasureStep(absl::Span<const model::CheckedLayer>,
                                                 const NetworkOptions&, const StepTiming&) {
  return absl::UnimplementedError("built without CUDA");
}

}  // namespace dp::engine::cuda

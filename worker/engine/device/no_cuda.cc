#include "worker/engine/device/device.h"

namespace dp::engine {

// For programs that do not link dp_engine_cuda, whose definition takes precedence.
absl::StatusOr<std::unique_ptr<Device>> OpenCuda(int) {
  return absl::UnimplementedError("built without CUDA");
}

}  // namespace dp::engine

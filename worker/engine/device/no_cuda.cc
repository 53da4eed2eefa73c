#include "worker/engine/device/device.h"

namespace dp::engine {

absl::StatusOr<std::unique_ptr<Device>> OpenCuda(int) {
  return absl::UnimplementedError("built without CUDA");
}

}  // namespace dp::engine

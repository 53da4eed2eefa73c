#include "worker/library/memory/device_math.h"

// For programs that link no kernels.

namespace dp::library {

absl::StatusOr<std::unique_ptr<ArrayMath>> MakeDeviceMath(const GpuUse&) {
  return absl::UnimplementedError("built without kernels for GPUs");
}

}  // namespace dp::library

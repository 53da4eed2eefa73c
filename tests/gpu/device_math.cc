#include <cstdlib>

#include "worker/library/memory/cuda_math.h"
#include "worker/library/memory/device_math.h"
#include "worker/library/memory/host_math.h"

// For programs that link the library's kernels. The GPUs of a rehearsal are the host's memory.

namespace dp::library {

absl::StatusOr<std::unique_ptr<ArrayMath>> MakeDeviceMath(const GpuUse& use) {
  if (std::getenv("FAKE_CUDA_DEVICES") != nullptr) return std::make_unique<HostMath>();
  return MakeCudaMath(use.device, use.stream);
}

}  // namespace dp::library

#include <memory>
#include <utility>

#include "base/status.h"
#include "worker/agent/gpus/device_memory.h"
#include "worker/agent/gpus/nvml_library.h"

namespace dp::worker {
namespace {

using Handle = NvmlLibrary::Handle;
using Result = NvmlLibrary::Result;

struct Memory {
  unsigned long long total, free, used;  // NOLINT: as NVML declares them
};
// Since release 510. Here `used` excludes what the driver keeps for itself.
struct MemoryV2 {
  unsigned int version;
  unsigned long long total, reserved, free, used;  // NOLINT: as NVML declares them
};
constexpr unsigned int kMemoryV2 = sizeof(MemoryV2) | (2u << 24);

class NvmlMemory final : public DeviceMemorySource {
 public:
  explicit NvmlMemory(NvmlLibrary nvml) : nvml_(std::move(nvml)) {}

  absl::Status FindCalls() {
    (void)nvml_.Find("nvmlDeviceGetMemoryInfo_v2", &memory_v2_);  // older drivers lack it
    return nvml_.Find("nvmlDeviceGetMemoryInfo", &memory_);
  }

  absl::StatusOr<int64_t> BytesInUse(const std::string& name) override {
    Handle device = nullptr;
    DP_RETURN_IF_ERROR(nvml_.Check(nvml_.HandleOf(name, &device), name));
    MemoryV2 memory{.version = kMemoryV2};
    if (memory_v2_ != nullptr && memory_v2_(device, &memory) == NvmlLibrary::kSuccess) {
      return static_cast<int64_t>(memory.used);
    }
    Memory plain{};
    DP_RETURN_IF_ERROR(nvml_.Check(memory_(device, &plain), name));
    return static_cast<int64_t>(plain.used);
  }

 private:
  const NvmlLibrary nvml_;
  Result (*memory_)(Handle, Memory*) = nullptr;
  Result (*memory_v2_)(Handle, MemoryV2*) = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMemorySource>> OpenNvml(const std::string& library) {
  DP_ASSIGN_OR_RETURN(NvmlLibrary loaded, NvmlLibrary::Open(library));
  auto nvml = std::make_unique<NvmlMemory>(std::move(loaded));
  DP_RETURN_IF_ERROR(nvml->FindCalls());
  return std::unique_ptr<DeviceMemorySource>(std::move(nvml));
}

}  // namespace dp::worker

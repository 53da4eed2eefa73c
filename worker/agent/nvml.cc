#include <dlfcn.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/agent/device_memory.h"

// The few entry points of NVML that are needed, declared here so that it is wanted neither when dp
// is built nor on hosts without a driver.

namespace dp::worker {
namespace {

using Handle = void*;
using Result = int;  // nvmlReturn_t
constexpr Result kSuccess = 0;
constexpr Result kNotFound = 6;

struct Memory {
  unsigned long long total, free, used;  // NOLINT: as NVML declares them
};
// Here `used` is without what the driver keeps for itself; since release 510.
struct MemoryV2 {
  unsigned int version;
  unsigned long long total, reserved, free, used;  // NOLINT: as NVML declares them
};
constexpr unsigned int kMemoryV2 = sizeof(MemoryV2) | (2u << 24);

class Nvml final : public DeviceMemorySource {
 public:
  explicit Nvml(void* library) : library_(library) {}
  ~Nvml() override {
    if (initialised_) shutdown_();
    dlclose(library_);
  }

  absl::Status Initialise() {
    DP_RETURN_IF_ERROR(Find("nvmlInit_v2", &init_));
    DP_RETURN_IF_ERROR(Find("nvmlShutdown", &shutdown_));
    DP_RETURN_IF_ERROR(Find("nvmlErrorString", &error_string_));
    DP_RETURN_IF_ERROR(Find("nvmlDeviceGetHandleByUUID", &by_uuid_));
    DP_RETURN_IF_ERROR(Find("nvmlDeviceGetHandleByIndex_v2", &by_index_));
    DP_RETURN_IF_ERROR(Find("nvmlDeviceGetMemoryInfo", &memory_));
    (void)Find("nvmlDeviceGetMemoryInfo_v2", &memory_v2_);  // older drivers have none
    DP_RETURN_IF_ERROR(Check(init_(), "the driver"));
    initialised_ = true;
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> BytesInUse(const std::string& name) override {
    Handle device = nullptr;
    DP_RETURN_IF_ERROR(Check(HandleOf(name, &device), name));
    MemoryV2 memory{.version = kMemoryV2};
    if (memory_v2_ != nullptr && memory_v2_(device, &memory) == kSuccess) {
      return static_cast<int64_t>(memory.used);
    }
    Memory plain{};
    DP_RETURN_IF_ERROR(Check(memory_(device, &plain), name));
    return static_cast<int64_t>(plain.used);
  }

 private:
  template <typename Function>
  absl::Status Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library_, name));
    if (*function != nullptr) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("NVML has no ", name));
  }

  Result HandleOf(const std::string& name, Handle* device) {
    unsigned int index = 0;
    return absl::SimpleAtoi(name, &index) ? by_index_(index, device)
                                          : by_uuid_(name.c_str(), device);
  }

  absl::Status Check(Result result, const std::string& what) {
    if (result == kSuccess) return absl::OkStatus();
    const std::string message = absl::StrCat("NVML on ", what, ": ", error_string_(result));
    return result == kNotFound ? absl::NotFoundError(message) : absl::UnavailableError(message);
  }

  void* const library_;
  bool initialised_ = false;
  Result (*init_)() = nullptr;
  Result (*shutdown_)() = nullptr;
  const char* (*error_string_)(Result) = nullptr;
  Result (*by_uuid_)(const char*, Handle*) = nullptr;
  Result (*by_index_)(unsigned int, Handle*) = nullptr;
  Result (*memory_)(Handle, Memory*) = nullptr;
  Result (*memory_v2_)(Handle, MemoryV2*) = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMemorySource>> OpenNvml(const std::string& library) {
  void* loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return absl::NotFoundError(dlerror());
  auto nvml = std::make_unique<Nvml>(loaded);
  DP_RETURN_IF_ERROR(nvml->Initialise());
  return std::unique_ptr<DeviceMemorySource>(std::move(nvml));
}

}  // namespace dp::worker

#include <map>
#include <memory>
#include <utility>

#include "base/status.h"
#include "worker/agent/gpus/gpu_reader.h"
#include "worker/agent/gpus/nvml_library.h"

namespace dp::worker {
namespace {

using Handle = NvmlLibrary::Handle;
using Result = NvmlLibrary::Result;
using Number = unsigned int;
using LongNumber = unsigned long long;  // NOLINT: as NVML declares them

// As NVML declares them.
struct MemoryInfo {
  LongNumber total, free, used;
};
struct MemoryInfoV2 {
  Number version;
  LongNumber total, reserved, free, used;
};
constexpr Number kMemoryInfoV2 = sizeof(MemoryInfoV2) | (2u << 24);
struct Utilisation {
  Number gpu, memory;
};
struct XidEvent {
  Handle device;
  LongNumber type, xid;
  Number gpu_instance, compute_instance;
};
constexpr int kGpuSensor = 0;
constexpr int kUncorrected = 1;
constexpr int kSinceReset = 0;
constexpr LongNumber kXidEvents = 0x8;
constexpr Number kNameBytes = 96;
// How many events one reading takes; the next reading takes the rest.
constexpr int kEventsMax = 256;

// Any of the calls may be missing; its figure is then absent.
class NvmlReader final : public GpuReader {
 public:
  explicit NvmlReader(NvmlLibrary nvml) : nvml_(std::move(nvml)) {
    (void)nvml_.Find("nvmlDeviceGetName", &model_);
    (void)nvml_.Find("nvmlDeviceGetUUID", &uuid_);
    (void)nvml_.Find("nvmlDeviceGetMemoryInfo", &memory_);
    (void)nvml_.Find("nvmlDeviceGetMemoryInfo_v2", &memory_v2_);
    (void)nvml_.Find("nvmlDeviceGetUtilizationRates", &utilisation_);
    (void)nvml_.Find("nvmlDeviceGetTemperature", &temperature_);
    // The name since release 535, else the older one.
    if (!nvml_.Find("nvmlDeviceGetCurrentClocksEventReasons", &slowdowns_).ok()) {
      (void)nvml_.Find("nvmlDeviceGetCurrentClocksThrottleReasons", &slowdowns_);
    }
    (void)nvml_.Find("nvmlDeviceGetTotalEccErrors", &ecc_errors_);
    (void)nvml_.Find("nvmlDeviceGetRetiredPagesPendingStatus", &pages_pending_);
    (void)nvml_.Find("nvmlDeviceGetRemappedRows", &remapped_rows_);
    Result (*create)(Handle*) = nullptr;
    const bool events = nvml_.Find("nvmlEventSetCreate", &create).ok() &&
                        nvml_.Find("nvmlEventSetFree", &free_events_).ok() &&
                        nvml_.Find("nvmlDeviceRegisterEvents", &register_events_).ok() &&
                        nvml_.Find("nvmlEventSetWait_v2", &next_event_).ok();
    if (!events || create(&events_) != NvmlLibrary::kSuccess) events_ = nullptr;
  }
  ~NvmlReader() override {
    if (events_ != nullptr) free_events_(events_);
  }
  NvmlReader(const NvmlReader&) = delete;
  NvmlReader& operator=(const NvmlReader&) = delete;

  std::vector<GpuReading> Read(const std::vector<std::string>& names) override {
    for (const std::string& name : names) WatchXids(name);
    TakeXids();
    std::vector<GpuReading> gpus;
    for (const std::string& name : names) gpus.push_back(ReadOne(name));
    return gpus;
  }

 private:
  // Null if the driver does not know the device.
  Handle Find(const std::string& name, GpuReading* gpu) const {
    Handle device = nullptr;
    return Answered(nvml_.HandleOf(name, &device), gpu) ? device : nullptr;
  }

  GpuReading ReadOne(const std::string& name) const {
    GpuReading gpu{.name = name, .read_by = "nvml"};
    const Handle device = Find(name, &gpu);
    if (device == nullptr) return gpu;
    char model[kNameBytes] = "";
    if (Ask(&gpu, model_, device, model, kNameBytes)) gpu.model = model;
    ReadMemory(device, &gpu);
    ReadFigures(device, &gpu);
    ReadErrors(device, &gpu);
    const auto xid = xids_.find(UuidOf(device));
    if (xid != xids_.end()) gpu.xid = xid->second;
    return gpu;
  }

  void ReadMemory(Handle device, GpuReading* gpu) const {
    MemoryInfoV2 now{.version = kMemoryInfoV2};
    MemoryInfo before{};
    if (Ask(gpu, memory_v2_, device, &now)) {
      gpu->memory_bytes = static_cast<int64_t>(now.total);
      gpu->memory_used_bytes = static_cast<int64_t>(now.used);
    } else if (Ask(gpu, memory_, device, &before)) {
      gpu->memory_bytes = static_cast<int64_t>(before.total);
      gpu->memory_used_bytes = static_cast<int64_t>(before.used);
    }
  }

  void ReadFigures(Handle device, GpuReading* gpu) const {
    Utilisation busy{};
    if (Ask(gpu, utilisation_, device, &busy))
      gpu->utilisation_percent = static_cast<int>(busy.gpu);
    Number celsius = 0;
    if (Ask(gpu, temperature_, device, kGpuSensor, &celsius)) {
      gpu->temperature_celsius = static_cast<int>(celsius);
    }
    LongNumber slowdowns = 0;
    if (Ask(gpu, slowdowns_, device, &slowdowns)) gpu->slowdowns = slowdowns;
  }

  void ReadErrors(Handle device, GpuReading* gpu) const {
    LongNumber errors = 0;
    if (Ask(gpu, ecc_errors_, device, kUncorrected, kSinceReset, &errors)) {
      gpu->uncorrected_errors = static_cast<int64_t>(errors);
    }
    // A GPU either retires pages or remaps rows, and reports that it does not support the other.
    int pages = 0;
    if (Ask(gpu, pages_pending_, device, &pages)) gpu->repair_pending = pages != 0;
    Number corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    if (Ask(gpu, remapped_rows_, device, &corrected, &uncorrected, &pending, &failed)) {
      gpu->repair_pending = pending != 0;
      gpu->repair_failed = failed != 0;
    }
  }

  template <typename... Parameters, typename... Arguments>
  bool Ask(GpuReading* gpu, Result (*call)(Parameters...), Arguments... arguments) const {
    return call != nullptr && Answered(call(arguments...), gpu);
  }

  bool Answered(Result result, GpuReading* gpu) const {
    if (result == NvmlLibrary::kGpuIsLost || result == NvmlLibrary::kResetRequired) {
      gpu->lost = nvml_.ErrorText(result);
    }
    return result == NvmlLibrary::kSuccess;
  }

  // Handles may differ from call to call; the UUID does not.
  std::string UuidOf(Handle device) const {
    char uuid[kNameBytes] = "";
    if (uuid_ != nullptr) (void)uuid_(device, uuid, kNameBytes);  // "" if the device has none
    return uuid;
  }

  // Watches from now on. The next reading retries what fails.
  void WatchXids(const std::string& name) {
    GpuReading unused;
    const Handle device = events_ == nullptr ? nullptr : Find(name, &unused);
    if (device == nullptr) return;
    const std::string uuid = UuidOf(device);
    if (uuid.empty() || xids_.contains(uuid)) return;
    if (register_events_(device, kXidEvents, events_) == NvmlLibrary::kSuccess) xids_[uuid] = 0;
  }

  void TakeXids() {
    XidEvent event{};
    for (int i = 0; i < kEventsMax && events_ != nullptr; ++i) {
      if (next_event_(events_, &event, /*timeout_ms=*/0) != NvmlLibrary::kSuccess) return;
      const auto kept = xids_.find(UuidOf(event.device));
      if (kept != xids_.end() && !NeedsReset(kept->second)) {
        kept->second = static_cast<int>(event.xid);
      }
    }
  }

  const NvmlLibrary nvml_;
  Result (*model_)(Handle, char*, Number) = nullptr;
  Result (*uuid_)(Handle, char*, Number) = nullptr;
  Result (*memory_)(Handle, MemoryInfo*) = nullptr;
  Result (*memory_v2_)(Handle, MemoryInfoV2*) = nullptr;
  Result (*utilisation_)(Handle, Utilisation*) = nullptr;
  Result (*temperature_)(Handle, int sensor, Number*) = nullptr;
  Result (*slowdowns_)(Handle, LongNumber*) = nullptr;
  Result (*ecc_errors_)(Handle, int type, int since, LongNumber*) = nullptr;
  Result (*pages_pending_)(Handle, int*) = nullptr;
  Result (*remapped_rows_)(Handle, Number*, Number*, Number*, Number*) = nullptr;
  Result (*free_events_)(Handle) = nullptr;
  Result (*register_events_)(Handle, LongNumber types, Handle events) = nullptr;
  Result (*next_event_)(Handle events, XidEvent*, Number timeout_ms) = nullptr;
  Handle events_ = nullptr;
  // By UUID of each watched GPU: its latest Xid, or the first one that needs a reset; 0: none.
  std::map<std::string, int> xids_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuReader>> NvmlGpus(const std::string& library) {
  DP_ASSIGN_OR_RETURN(NvmlLibrary nvml, NvmlLibrary::Open(library));
  return std::unique_ptr<GpuReader>(std::make_unique<NvmlReader>(std::move(nvml)));
}

}  // namespace dp::worker

#include "worker/agent/gpus/device_memory.h"

#include <pthread.h>

#include <utility>

#include "base/check.h"
#include "base/program/log.h"

namespace dp::worker {

std::unique_ptr<DeviceMemorySource> OpenDeviceMemory(const std::string& nvml_fault) {
  auto nvml = nvml_fault.empty() ? OpenNvml() : absl::UnavailableError(nvml_fault);
  Log(Severity::kInfo, "device_memory",
      {{"by", nvml.ok() ? "nvml" : "nvidia-smi"},
       {"no_nvml", nvml.ok() ? std::string() : std::string(nvml.status().message())}});
  return nvml.ok() ? *std::move(nvml) : NvidiaSmi();
}

DeviceProbe::DeviceProbe(DeviceMemorySource& source, Sink sink)
    : source_(source), sink_(std::move(sink)) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "devices");
}

DeviceProbe::~DeviceProbe() { questions_.Close(); }

void DeviceProbe::Ask(std::vector<std::string> devices) {
  const bool taken = questions_.TryPush(devices);
  DP_CHECK(taken || questions_.closed());
}

void DeviceProbe::Loop() {
  while (!questions_.closed()) {
    for (const std::vector<std::string>& devices : questions_.DrainFor(absl::InfiniteDuration())) {
      DeviceMemory memory;
      for (const std::string& device : devices) {
        memory.emplace(device, source_.BytesInUse(device));
      }
      sink_(std::move(memory));
    }
  }
}

}  // namespace dp::worker

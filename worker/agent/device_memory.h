#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bounded_queue.h"
#include "worker/agent/events.h"

namespace dp::worker {

// Whoever knows how much of a GPU's memory is in use. Calls may block for as long as a driver does.
// Used by one thread.
class DeviceMemorySource {
 public:
  virtual ~DeviceMemorySource() = default;

  // `device` as CUDA_VISIBLE_DEVICES names it: by UUID, or by number on the bus.
  // Errors: NotFound there is no such device; Unavailable and Internal in the driver's words.
  virtual absl::StatusOr<int64_t> BytesInUse(const std::string& device) = 0;
};

// NVIDIA's driver by its library, loaded now. Errors: NotFound the library, or an entry point, is
// not there; Unavailable the driver does not take calls.
absl::StatusOr<std::unique_ptr<DeviceMemorySource>> OpenNvml(
    const std::string& library = "libnvidia-ml.so.1");

// The same by running nvidia-smi for each answer; `program` is searched for in PATH.
std::unique_ptr<DeviceMemorySource> NvidiaSmi(std::string program = "nvidia-smi");

// NVML, unless `nvml_fault` says why it must not be loaded, else nvidia-smi; logs which.
std::unique_ptr<DeviceMemorySource> OpenDeviceMemory(const std::string& nvml_fault);

// Asks a source from a thread of its own, one question at a time, and tells DeviceMemoryRead. Its
// end waits for an answer under way.
class DeviceProbe {
 public:
  DeviceProbe(DeviceMemorySource& source, Events& events);
  ~DeviceProbe();

  // The question before must have been answered. Any thread.
  void Ask(std::vector<std::string> devices);

 private:
  void Loop();

  DeviceMemorySource& source_;
  Events& events_;
  BoundedQueue<std::vector<std::string>> questions_{1};
  std::jthread thread_;
};

}  // namespace dp::worker

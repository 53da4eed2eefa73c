#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bounded_queue.h"
#include "worker/core/slot_devices.h"

namespace dp::worker {

// A source of how much GPU memory is in use. Calls may block as long as the driver does. Used by
// one thread.
class DeviceMemorySource {
 public:
  virtual ~DeviceMemorySource() = default;

  // `device`: as in CUDA_VISIBLE_DEVICES, by UUID or by number on the bus. Errors: NotFound no such
  // device; Unavailable and Internal in the driver's words.
  virtual absl::StatusOr<int64_t> BytesInUse(const std::string& device) = 0;
};

// Uses the library of NVIDIA's driver, which is loaded now. Errors: NotFound the library or an
// entry point is missing; Unavailable the driver rejects calls.
absl::StatusOr<std::unique_ptr<DeviceMemorySource>> OpenNvml(
    const std::string& library = "libnvidia-ml.so.1");

// Runs nvidia-smi for each query; `program` is searched for in PATH.
std::unique_ptr<DeviceMemorySource> NvidiaSmi(std::string program = "nvidia-smi");

// NVML; or nvidia-smi, if NVML fails or `nvml_fault` says why it must not be loaded. Logs the
// choice.
std::unique_ptr<DeviceMemorySource> OpenDeviceMemory(const std::string& nvml_fault);

// Queries a source from its own thread, one query at a time, and passes each answer to a sink. The
// destructor waits for a query in flight.
class DeviceProbe {
 public:
  // Called on the probe's thread.
  using Sink = std::function<void(DeviceMemory memory)>;

  // The caller owns `source`.
  DeviceProbe(DeviceMemorySource& source, Sink sink);
  ~DeviceProbe();

  // The previous query must have been answered. Any thread.
  void Ask(std::vector<std::string> devices);

 private:
  void Loop();

  DeviceMemorySource& source_;
  const Sink sink_;
  BoundedQueue<std::vector<std::string>> questions_{1};
  std::jthread thread_;
};

}  // namespace dp::worker

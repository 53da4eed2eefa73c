#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/mutex.h"
#include "worker/core/gpu_health.h"

namespace dp::worker {

// Reads the GPUs of this host. Calls may block as long as the driver does. Used by one thread.
class GpuReader {
 public:
  virtual ~GpuReader() = default;

  // One reading for each name, in this order; unknown fields are absent.
  virtual std::vector<GpuReading> Read(const std::vector<std::string>& names) = 0;
};

// Uses NVIDIA's library, which is loaded now. Reports Xids since then. Errors: as OpenNvml.
absl::StatusOr<std::unique_ptr<GpuReader>> NvmlGpus(
    const std::string& library = "libnvidia-ml.so.1");

// Runs nvidia-smi, which reports no Xids, slowdowns or failed repairs. Uses ReadProcGpus for GPUs
// that nvidia-smi does not report. `program` is searched for in PATH.
std::unique_ptr<GpuReader> SmiGpus(std::string driver_dir, std::string program = "nvidia-smi");

// NVML; or nvidia-smi, if NVML fails or `nvml_fault` says why it must not be loaded. Logs the
// choice. `driver_dir` as in ListByProc.
std::unique_ptr<GpuReader> OpenGpuReader(const std::string& driver_dir,
                                         const std::string& nvml_fault);

// Reads GPUs at once and then every `every`, from its own thread. Passes the readings to a sink and
// keeps the latest. The destructor waits for a reading in flight.
class GpuWatch {
 public:
  struct Latest {
    uint64_t number = 0;  // counts the readings; 0: none yet
    std::vector<GpuReading> gpus;
  };
  // Called on the watch's thread.
  using Sink = std::function<void(std::vector<GpuReading> gpus)>;

  // The caller owns `reader`.
  GpuWatch(GpuReader& reader, std::vector<std::string> names, absl::Duration every, Sink sink);
  ~GpuWatch();

  // Any thread.
  Latest latest() const DP_EXCLUDES(mu_);

 private:
  void Loop();

  GpuReader& reader_;
  const std::vector<std::string> names_;
  const absl::Duration every_;
  const Sink sink_;
  BoundedQueue<bool> end_{1};  // always empty; the destructor closes it

  mutable Mutex mu_;
  Latest latest_ DP_GUARDED_BY(mu_);

  std::jthread thread_;
};

}  // namespace dp::worker

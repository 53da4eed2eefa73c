#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/mutex.h"
#include "worker/agent/events.h"
#include "worker/core/gpu_health.h"

namespace dp::worker {

// Whoever describes the GPUs of this host. Calls may block for as long as a driver does. Used by
// one thread.
class GpuReader {
 public:
  virtual ~GpuReader() = default;

  // One reading for each name, in their order; what cannot be found out is absent.
  virtual std::vector<GpuReading> Read(const std::vector<std::string>& names) = 0;
};

// By NVIDIA's library, loaded now. Xids are those since then. Errors: as OpenNvml.
absl::StatusOr<std::unique_ptr<GpuReader>> NvmlGpus(
    const std::string& library = "libnvidia-ml.so.1");

// By running nvidia-smi, which tells neither Xids nor slowdowns nor repairs that failed; and where
// that says nothing, what ReadProcGpus knows. `program` is searched for in PATH.
std::unique_ptr<GpuReader> SmiGpus(std::string driver_dir, std::string program = "nvidia-smi");

// NVML, unless `nvml_fault` says why it must not be loaded, else nvidia-smi; logs which.
// `driver_dir` as in ListByProc.
std::unique_ptr<GpuReader> OpenGpuReader(const std::string& driver_dir,
                                         const std::string& nvml_fault);

// Reads GPUs at once and then every `every`, from a thread of its own: tells GpusRead, and keeps
// the latest for whoever asks. Its end waits for a reading under way.
class GpuWatch {
 public:
  struct Latest {
    uint64_t number = 0;  // counts the readings; 0: there was none yet
    std::vector<GpuReading> gpus;
  };

  // `reader` and `events` are the owner's.
  GpuWatch(GpuReader& reader, std::vector<std::string> names, absl::Duration every, Events& events);
  ~GpuWatch();

  // Any thread.
  Latest latest() const DP_EXCLUDES(mu_);

 private:
  void Loop();

  GpuReader& reader_;
  const std::vector<std::string> names_;
  const absl::Duration every_;
  Events& events_;
  BoundedQueue<bool> end_{1};  // nothing is ever put there; closed at the end

  mutable Mutex mu_;
  Latest latest_ DP_GUARDED_BY(mu_);

  std::jthread thread_;
};

}  // namespace dp::worker

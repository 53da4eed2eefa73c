#include "worker/agent/gpus/gpu_reader.h"

#include <pthread.h>

#include <utility>

#include "base/program/log.h"

namespace dp::worker {

std::unique_ptr<GpuReader> OpenGpuReader(const std::string& driver_dir,
                                         const std::string& nvml_fault) {
  auto nvml = nvml_fault.empty() ? NvmlGpus() : absl::UnavailableError(nvml_fault);
  Log(Severity::kInfo, "gpus_read",
      {{"by", nvml.ok() ? "nvml" : "nvidia-smi"},
       {"no_nvml", nvml.ok() ? std::string() : std::string(nvml.status().message())}});
  return nvml.ok() ? *std::move(nvml) : SmiGpus(driver_dir);
}

GpuWatch::GpuWatch(GpuReader& reader, std::vector<std::string> names, absl::Duration every,
                   Sink sink)
    : reader_(reader), names_(std::move(names)), every_(every), sink_(std::move(sink)) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "gpus");
}

GpuWatch::~GpuWatch() { end_.Close(); }

GpuWatch::Latest GpuWatch::latest() const {
  MutexLock lock(mu_);
  return latest_;
}

void GpuWatch::Loop() {
  while (!end_.closed()) {
    std::vector<GpuReading> gpus = reader_.Read(names_);
    {
      MutexLock lock(mu_);
      ++latest_.number;
      latest_.gpus = gpus;
    }
    sink_(std::move(gpus));
    (void)end_.DrainFor(every_);
  }
}

}  // namespace dp::worker

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "worker/agent/gpus/device_memory.h"
#include "worker/agent/gpus/gpu_reader.h"

namespace dp::worker {

// The driver of a host whose slot 0 has the GPU "a".
class FakeMemory final : public DeviceMemorySource {
 public:
  void Set(absl::StatusOr<int64_t> mib) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    mib_ = std::move(mib);
  }
  // Waits for so many more queries; false on timeout.
  bool AwaitQuestions(int questions) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const int goal = asked_ + questions;
    return changed_.WaitFor(mu_, absl::Seconds(20),
                            [this, goal]() DP_REQUIRES(mu_) { return asked_ >= goal; });
  }

  absl::StatusOr<int64_t> BytesInUse(const std::string&) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++asked_;
    changed_.NotifyAll();
    if (!mib_.ok()) return mib_.status();
    return *mib_ << 20;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  absl::StatusOr<int64_t> mib_ DP_GUARDED_BY(mu_) = 0;
  int asked_ DP_GUARDED_BY(mu_) = 0;
};

// Readings of the GPU "a".
class FakeGpus final : public GpuReader {
 public:
  void Set(const GpuReading& gpu) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    gpu_ = gpu;
    gpu_.name = "a";
  }
  std::vector<GpuReading> Read(const std::vector<std::string>&) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return {gpu_};
  }

 private:
  Mutex mu_;
  GpuReading gpu_ DP_GUARDED_BY(mu_) = {.name = "a"};
};

}  // namespace dp::worker

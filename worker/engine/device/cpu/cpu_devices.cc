#include "worker/engine/device/cpu/cpu_devices.h"

#include "worker/engine/device/cpu/cpu_stream.h"

namespace dp::engine {

CpuDevices::CpuDevices(int devices, int threads) {
  if (devices == 1) return;
  threads_ = std::make_unique<DeviceThreads>(devices);
  threads_->Run(0, devices, [threads](int) { SetComputeThreads(threads); });
}

void CpuDevices::Finish() {
  if (waiting_.empty()) return;
  const std::vector<std::function<void()>> now = std::exchange(waiting_, {});
  threads_->Run(device_, 1, [&now](int) {
    for (const std::function<void()>& work : now) work();
  });
}

std::vector<absl::Duration> CpuDevices::busy() const {
  return alone() ? std::vector<absl::Duration>() : threads_->busy();
}

}  // namespace dp::engine

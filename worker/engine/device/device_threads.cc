#include "worker/engine/device/device_threads.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::engine {

DeviceThreads::DeviceThreads(int devices, const Clock& clock)
    : clock_(clock), devices_(static_cast<size_t>(devices)) {
  for (int device = 0; device < devices; ++device) {
    threads_.emplace_back([this, device] { Serve(device); });
    pthread_setname_np(threads_.back().native_handle(), absl::StrCat("device-", device).c_str());
  }
}

DeviceThreads::~DeviceThreads() {
  MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

void DeviceThreads::Run(int first, int count, const std::function<void(int)>& work) {
  std::exception_ptr thrown;
  {
    MutexLock lock(mu_);
    for (int device = first; device < first + count; ++device)
      devices_[static_cast<size_t>(device)].work = &work;
    unfinished_ = count;
    changed_.NotifyAll();
    while (unfinished_ > 0) changed_.Wait(mu_);
    for (Device& device : devices_) {
      const std::exception_ptr one = std::exchange(device.thrown, nullptr);
      if (thrown == nullptr) thrown = one;
    }
  }
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

std::vector<absl::Duration> DeviceThreads::busy() const {
  MutexLock lock(mu_);
  std::vector<absl::Duration> busy;
  for (const Device& device : devices_) busy.push_back(device.busy);
  return busy;
}

void DeviceThreads::Serve(int number) {
  const auto index = static_cast<size_t>(number);
  while (true) {
    const std::function<void(int)>* work = nullptr;
    {
      MutexLock lock(mu_);
      while (!closed_ && devices_[index].work == nullptr) changed_.Wait(mu_);
      if (closed_) return;
      work = devices_[index].work;
    }
    std::exception_ptr thrown;
    const absl::Time began = clock_.Now();
    try {
      (*work)(number);
    } catch (...) {
      thrown = std::current_exception();
    }
    const absl::Duration took = clock_.Now() - began;
    MutexLock lock(mu_);
    Device& device = devices_[index];
    device.work = nullptr;
    device.thrown = thrown;
    device.busy += took;
    if (--unfinished_ == 0) changed_.NotifyAll();
  }
}

}  // namespace dp::engine

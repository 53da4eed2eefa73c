#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace dp::engine {

// A thread for each of several devices of one process. Whatever a device computes runs on its
// thread. Calls come from one thread at a time, and none from the devices' threads.
class DeviceThreads {
 public:
  explicit DeviceThreads(int devices, const Clock& clock = Clock::Steady());
  ~DeviceThreads();

  // Calls work(d) on the thread of each device d from `first` on, `count` of them at the same time,
  // and waits for all. Throws what the first device threw.
  void Run(int first, int count, const std::function<void(int)>& work) DP_EXCLUDES(mu_);

  int size() const { return static_cast<int>(threads_.size()); }
  // How long each device has worked, in all. Call it between calls of Run.
  std::vector<absl::Duration> busy() const DP_EXCLUDES(mu_);

 private:
  struct Device {
    const std::function<void(int)>* work = nullptr;  // null: nothing to do
    std::exception_ptr thrown;
    absl::Duration busy;
  };

  void Serve(int device) DP_EXCLUDES(mu_);

  const Clock& clock_;
  mutable Mutex mu_;
  CondVar changed_;
  std::vector<Device> devices_ DP_GUARDED_BY(mu_);
  int unfinished_ DP_GUARDED_BY(mu_) = 0;
  bool closed_ DP_GUARDED_BY(mu_) = false;
  std::vector<std::jthread> threads_;  // last: they start when all other members exist
};

}  // namespace dp::engine

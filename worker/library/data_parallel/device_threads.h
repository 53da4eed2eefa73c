#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "worker/library/gpu/device.h"

namespace dp::library {

// A thread for each device, which runs all work of that device. On the thread of a GPU, that GPU is
// chosen. Run is called by one thread at a time. The destructor waits for the threads.
class DeviceThreads {
 public:
  explicit DeviceThreads(std::vector<Device> devices);
  ~DeviceThreads();

  // Runs work(i) on device i for the first `count` devices, and returns when all have returned, and
  // GPUs have done what they were given. A GPU has done its earlier work before. The exception of
  // the first device that threw is thrown as a DistError that names the device and `verb`, with the
  // exception nested.
  void Run(const std::string& verb, size_t count, const std::function<void(size_t)>& work)
      DP_EXCLUDES(mu_);

 private:
  void Serve(size_t device) DP_EXCLUDES(mu_);

  const std::vector<Device> devices_;
  Mutex mu_;
  CondVar changed_;
  uint64_t round_ DP_GUARDED_BY(mu_) = 0;  // of work; each device does each one once
  const std::function<void(size_t)>* work_ DP_GUARDED_BY(mu_) = nullptr;
  size_t count_ DP_GUARDED_BY(mu_) = 0;
  size_t unfinished_ DP_GUARDED_BY(mu_) = 0;
  bool closed_ DP_GUARDED_BY(mu_) = false;
  std::vector<std::exception_ptr> thrown_ DP_GUARDED_BY(mu_);  // by device
  std::vector<std::jthread> threads_;
};

}  // namespace dp::library

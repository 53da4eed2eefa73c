#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "worker/engine/device/device_threads.h"

namespace dp::engine {

// The devices on which a network's layers are placed: a thread each, with compute threads of its
// own. Work runs in the order in which it is given, one piece after the other, so results do not
// depend on where layers are. With one device all work runs at once on the caller's thread. Used by
// one thread.
class CpuDevices {
 public:
  // `threads`: compute threads of each device.
  CpuDevices(int devices, int threads);

  bool alone() const { return threads_ == nullptr; }
  // Runs `work` on `device`. With several devices, it may wait for Finish, or for work of another
  // device: work in a row for one device takes one handover. Throws what `work` throws.
  template <typename Work>
  void Do(int device, Work work) {
    if (alone()) return work();
    if (device != device_) Finish();
    device_ = device;
    waiting_.emplace_back(std::move(work));
  }
  // Waits until all work is done.
  void Finish();

  // How long each has worked; empty with one device.
  std::vector<absl::Duration> busy() const;

 private:
  std::unique_ptr<DeviceThreads> threads_;  // null: one device
  int device_ = 0;                          // of the work that waits
  std::vector<std::function<void()>> waiting_;
};

}  // namespace dp::engine

#pragma once

#include <sys/mman.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "worker/engine/collectives/cuda/cuda_api.h"
#include "worker/engine/collectives/testing/fake_kernels.h"

namespace dp::engine {

// CUDA's runtime with several GPUs, in host memory. A GPU does its work late: when it is awaited,
// when a copy on it must be done, or when memory of it is freed. Whoever reads the memory without
// waiting for its GPU thus reads old bytes. The host cannot touch the memory at all: such an access
// ends the process, as it does beside a real GPU. Knows default streams alone. Thread-safe.
class FakeCuda : public FakeKernelsOf<CudaApi> {
 public:
  explicit FakeCuda(int devices) : work_(static_cast<size_t>(devices)) {}

  // Memories that were allocated and not freed.
  size_t live() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return memories_.size();
  }
  // Whether the device has done all work that it was given.
  bool idle(int device) const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return work_[static_cast<size_t>(device)].empty();
  }
  // From now on CUDA manages this memory, which begins there.
  void Manage(const void* memory) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const auto found = memories_.find(static_cast<const uint8_t*>(memory));
    DP_CHECK(found != memories_.end());
    found->second.managed = true;
  }
  // From now on a device has room for so many bytes.
  void LimitRoom(size_t bytes) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    room_ = bytes;
  }
  // From now on nobody learns where memory lies.
  void FailDeviceOf(const absl::Status& error) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    device_of_error_ = error;
  }
  // The device's next await fails.
  void FailNext(int device, const absl::Status& error) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    errors_[device] = error;
  }

  void Enqueue(Stream stream, std::function<void()> work) override DP_EXCLUDES(mu_) {
    DP_CHECK(stream == nullptr);
    MutexLock lock(mu_);
    work_[static_cast<size_t>(chosen_)].push_back(std::move(work));
  }

  absl::StatusOr<int> DeviceCount() override {
    if (work_.empty())
      return absl::InternalError("CUDA: cudaGetDeviceCount: no CUDA-capable device is detected");
    return static_cast<int>(work_.size());
  }
  absl::Status UseDevice(int device) override {
    if (device < 0 || device >= static_cast<int>(work_.size()))
      return absl::InternalError(absl::StrCat("CUDA: cudaSetDevice on device ", device));
    chosen_ = device;
    return absl::OkStatus();
  }
  absl::StatusOr<int> ChosenDevice() override { return chosen_; }
  absl::Status AwaitDevice() override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    RunAll(chosen_);
    return std::exchange(errors_[chosen_], absl::OkStatus());
  }

  absl::StatusOr<uint8_t*> Allocate(size_t bytes) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    size_t used = bytes;
    for (const auto& [begin, memory] : memories_)
      if (memory.device == chosen_) used += memory.bytes;
    if (used > room_)
      return absl::ResourceExhaustedError(
          absl::StrCat("GPU ", chosen_, " has no room for ", bytes, " more bytes"));
    void* const begin =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    DP_CHECK(begin != MAP_FAILED);
    std::memset(begin, 0xa5, bytes);  // nobody may count on what it holds
    DP_CHECK(mprotect(begin, bytes, PROT_NONE) == 0);
    auto* const memory = static_cast<uint8_t*>(begin);
    memories_[memory] = {bytes, chosen_};
    return memory;
  }
  void Free(uint8_t* memory) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const auto found = memories_.find(memory);
    DP_CHECK(found != memories_.end());
    RunAll(found->second.device);
    munmap(memory, found->second.bytes);
    memories_.erase(found);
  }
  absl::StatusOr<std::optional<int>> DeviceOf(const void* memory) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (!device_of_error_.ok()) return device_of_error_;
    const auto* const byte = static_cast<const uint8_t*>(memory);
    const auto behind = memories_.upper_bound(byte);
    if (behind == memories_.begin()) return std::nullopt;
    const auto& [begin, its] = *std::prev(behind);
    if (byte >= begin + its.bytes) return std::nullopt;
    return its.managed ? chosen_ : its.device;
  }

  absl::Status Copy(const uint8_t* from, size_t bytes, uint8_t* to, Stream stream) override {
    Enqueue(stream, [=] { std::memcpy(to, from, bytes); });
    MutexLock lock(mu_);
    RunAll(chosen_);
    return absl::OkStatus();
  }

 private:
  struct Memory {
    size_t bytes;
    int device;
    bool managed = false;
  };

  void RunAll(int device) DP_REQUIRES(mu_) {
    std::deque<std::function<void()>>& work = work_[static_cast<size_t>(device)];
    if (work.empty()) return;
    Protect(PROT_READ | PROT_WRITE);
    for (; !work.empty(); work.pop_front()) work.front()();
    Protect(PROT_NONE);
  }
  void Protect(int access) DP_REQUIRES(mu_) {
    for (const auto& [begin, memory] : memories_)
      DP_CHECK(mprotect(begin, memory.bytes, access) == 0);
  }

  inline static thread_local int chosen_ = 0;
  mutable Mutex mu_;
  size_t room_ DP_GUARDED_BY(mu_) = size_t{1} << 30;
  std::vector<std::deque<std::function<void()>>>
      work_;  // by device; its entries are guarded by mu_
  std::map<int, absl::Status> errors_ DP_GUARDED_BY(mu_);
  absl::Status device_of_error_ DP_GUARDED_BY(mu_);
  std::map<uint8_t*, Memory, std::less<>> memories_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::engine

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/runtime/cuda_arena_plan.h"

namespace dp::engine::cuda {

// Memory of the current device, freed with the handle. Not initialized; aligned to 256 bytes. Uses
// plain cudaMalloc, because a network allocates once, before its steps. Not thread-safe.
class DeviceBuffer {
 public:
  // Errors: ResourceExhausted. A buffer of 0 bytes is null.
  static absl::StatusOr<DeviceBuffer> Allocate(int64_t bytes);

  DeviceBuffer() = default;
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept { Swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    Swap(other);
    return *this;
  }

  // Zeroes, in the stream's order.
  absl::Status Zero(cudaStream_t stream);

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void Swap(DeviceBuffer& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// The arrays of an ArenaPlan, in one allocation. Arrays whose lifetimes do not overlap share
// memory, so an array's contents are undefined before its first step. Not thread-safe.
class Arena {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<Arena> Allocate(ArenaPlan plan);

  Arena() = default;

  // The array at this index of the plan.
  template <typename T>
  T* at(int array) const {
    return reinterpret_cast<T*>(memory_.as<char>() + plan_.offsets.at(array));
  }
  void* data() const { return memory_.data(); }
  int64_t bytes() const { return memory_.bytes(); }

 private:
  ArenaPlan plan_;
  DeviceBuffer memory_;
};

}  // namespace dp::engine::cuda

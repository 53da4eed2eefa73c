#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dp::engine {

// The few entry points of the CUDA runtime that dp's libraries need for memory, without its
// headers. A null stream is the chosen device's default one. Thread-safe.
// Errors of all calls: Internal, in the runtime's own words.
class CudaApi {
 public:
  using Stream = void*;

  virtual ~CudaApi() = default;

  // How many GPUs this process sees. Errors: also on a host without a GPU or its driver.
  virtual absl::StatusOr<int> DeviceCount() = 0;
  // Chooses the calling thread's device.
  virtual absl::Status UseDevice(int device) = 0;
  virtual absl::StatusOr<int> ChosenDevice() = 0;
  // Blocks until the chosen device has done all work that it was given, on any stream.
  virtual absl::Status AwaitDevice() = 0;

  // Memory of the chosen device. Errors: also ResourceExhausted.
  virtual absl::StatusOr<uint8_t*> Allocate(size_t bytes) = 0;
  // Waits for the work of the memory's device.
  virtual void Free(uint8_t* memory) = 0;
  // The device whose kernels can use this memory as it is; nothing for the host's memory. Memory
  // that CUDA manages is the chosen device's.
  virtual absl::StatusOr<std::optional<int>> DeviceOf(const void* memory) = 0;
  // Between any two memories, after the earlier work of `stream`; blocks until the copy is done.
  virtual absl::Status Copy(const uint8_t* from, size_t bytes, uint8_t* to, Stream stream) = 0;
  // The same between memories of any two devices, but returns at once: `stream` copies before its
  // later work.
  virtual absl::Status CopyOnStream(const uint8_t* from, size_t bytes, uint8_t* to,
                                    Stream stream) = 0;
  // Fills the device's memory with zeros, as CopyOnStream copies.
  virtual absl::Status ZeroOnStream(uint8_t* memory, size_t bytes, Stream stream) = 0;
};

// Loads the CUDA runtime, so that a program for GPUs starts on hosts without it. The library stays
// loaded until the process ends. Errors: Unavailable it is not there; Unimplemented in a build
// without CUDA's headers.
absl::StatusOr<std::unique_ptr<CudaApi>> LoadCuda();

}  // namespace dp::engine

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "absl/status/status.h"

namespace dp::engine {

// A fake of CUDA whose streams take functions as kernels.
class FakeKernels {
 public:
  virtual ~FakeKernels() = default;

  // Gives `work` on the device's memory to `stream`.
  virtual void Enqueue(void* stream, std::function<void()> work) = 0;
};

// The calls of an `Api`, which is a CudaApi, that give a stream a kernel.
template <typename Api>
class FakeKernelsOf : public Api, public FakeKernels {
 public:
  absl::Status CopyOnStream(const uint8_t* from, size_t bytes, uint8_t* to, void* stream) override {
    Enqueue(stream, [=] { std::memcpy(to, from, bytes); });
    return absl::OkStatus();
  }
  absl::Status ZeroOnStream(uint8_t* memory, size_t bytes, void* stream) override {
    Enqueue(stream, [=] { std::memset(memory, 0, bytes); });
    return absl::OkStatus();
  }
};

}  // namespace dp::engine

#pragma once

#include <functional>

namespace dp::engine {

// A fake of CUDA whose streams take functions as kernels.
class FakeKernels {
 public:
  virtual ~FakeKernels() = default;

  // Gives `work` on the device's memory to `stream`.
  virtual void Enqueue(void* stream, std::function<void()> work) = 0;
};

}  // namespace dp::engine

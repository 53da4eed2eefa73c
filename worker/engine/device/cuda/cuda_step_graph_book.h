#pragma once

#include <cstdint>
#include <optional>

namespace dp::engine::cuda {

// What a captured step has fixed: the addresses that its operations read and write, and how they
// were chosen. Batches are padded to one size, and count, draw, scale and the optimizer's step are
// in device memory, so none of them is part of it.
struct StepForm {
  const void* values = nullptr;
  const void* gradients = nullptr;
  const void* data = nullptr;  // the data set on the device; null where batches come from the host
  int batch_size = 0;

  friend bool operator==(const StepForm&, const StepForm&) = default;
};

// Decides how each step is run: the first of a form one operation after another, which loads every
// kernel and meets every error by name; the second is captured; those after it launch the captured
// graph, until the form changes. A capture that is refused is not tried again for this form. Pure;
// not thread-safe.
class StepGraphBook {
 public:
  enum class Way { kOperations, kCapture, kLaunch };

  // How to run a step of `form`. kCapture: the caller captures it, says Captured or Refused, and
  // runs it.
  Way WayOf(const StepForm& form);
  void Captured();
  void Refused();

 private:
  enum class State { kNew, kWarm, kCaptured, kRefused };

  std::optional<StepForm> form_;
  State state_ = State::kNew;
};

}  // namespace dp::engine::cuda

#pragma once

#include <cstdint>
#include <optional>

namespace dp::engine::cuda {

// The properties that a captured step has fixed: the addresses that its operations read and write,
// and the batch size. Batches are padded to one size. Count, draw, scale and the optimizer's step
// are in device memory, so none of them is part of the form.
struct StepForm {
  const void* values = nullptr;
  const void* gradients = nullptr;
  const void* data = nullptr;  // the data set on the device; null where batches come from the host
  int batch_size = 0;

  friend bool operator==(const StepForm&, const StepForm&) = default;
};

// Decides how each step is run. The first step of a form runs one operation after another, which
// loads every kernel and reports every error by name. The second step is captured. Later steps
// launch the captured graph, until the form changes. A refused capture is not retried for the same
// form. Pure; not thread-safe.
class StepGraphBook {
 public:
  enum class Way { kOperations, kCapture, kLaunch };

  // How to run a step of `form`. On kCapture the caller captures the step, calls Captured or
  // Refused, and runs it.
  Way WayOf(const StepForm& form);
  void Captured();
  void Refused();

 private:
  enum class State { kNew, kWarm, kCaptured, kRefused };

  std::optional<StepForm> form_;
  State state_ = State::kNew;
};

}  // namespace dp::engine::cuda

#include "worker/engine/device/cuda/step/cuda_step_graph_book.h"

#include "base/check.h"

namespace dp::engine::cuda {

StepGraphBook::Way StepGraphBook::WayOf(const StepForm& form) {
  if (form_ != form) {
    form_ = form;
    state_ = State::kNew;
  }
  switch (state_) {
    case State::kNew:
      state_ = State::kWarm;
      return Way::kOperations;
    case State::kWarm:
      return Way::kCapture;
    case State::kCaptured:
      return Way::kLaunch;
    case State::kRefused:
      break;
  }
  return Way::kOperations;
}

void StepGraphBook::Captured() {
  DP_CHECK(state_ == State::kWarm);
  state_ = State::kCaptured;
}

void StepGraphBook::Refused() {
  DP_CHECK(state_ == State::kWarm);
  state_ = State::kRefused;
}

}  // namespace dp::engine::cuda

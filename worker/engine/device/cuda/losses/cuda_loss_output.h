#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

namespace dp::engine::cuda {

// BatchResult without the count. In device memory.
struct LossSums {
  double loss_sum = 0;
  int64_t correct = 0;
};

// Where the sums of a loss go.
struct LossOutput {
  const StepInput* step;
  LossSums* sums;
  // Null, or a StepTail: the float nearest to the loss sum, times step->gradient_scale, and
  // step->leaving.
  float* tail;

  DP_HOST_DEVICE void Write(double loss, int64_t correct) const {
    *sums = {loss, correct};
    if (tail == nullptr) return;
    tail[0] = static_cast<float>(loss) * step->gradient_scale;
    tail[1] = step->leaving;
  }
};

}  // namespace dp::engine::cuda

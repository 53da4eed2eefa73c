#pragma once

#include "base/model/host_device.h"

namespace dp::engine {

// By what torch.nn.utils.clip_grad_norm_(max_norm = clip_norm) multiplies gradients of this norm:
// clip_norm / (norm + 1e-6), at most 1. A norm that is NaN gives 1.
DP_HOST_DEVICE inline float ClipFactor(double clip_norm, float norm) {
  const double factor = clip_norm / (static_cast<double>(norm) + 1e-6);
  return factor < 1 ? static_cast<float>(factor) : 1.0f;
}

}  // namespace dp::engine

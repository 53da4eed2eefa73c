#pragma once

#include <cmath>
#include <cstdint>

#include "base/model/host_device.h"
#include "worker/engine/nn/adamw.h"
#include "worker/engine/nn/update_group.h"

// The arithmetic of an AdamW step, written once for device and host. A test without a GPU compares
// it with nn/adamw.h.

namespace dp::engine::cuda {

// The factors of one step for one group.
struct AdamWFactors {
  float keep = 1;   // of values that do not decay
  float decay = 0;  // not 0 for values that decay by their gradients
  float beta1 = 0, beta1_rest = 0;
  float beta2 = 0, beta2_rest = 0;
  float rate = 0;         // learning rate, corrected for the first moment's start at zero
  float second_root = 0;  // the same correction for the second moment's root
  float epsilon = 0;
  int64_t step = 0;
  bool frozen = false;
};

// `step` is counted from 1.
DP_HOST_DEVICE inline AdamWFactors AdamWFactorsOf(const AdamWOptions& options,
                                                  const UpdateGroup& group, double learning_rate,
                                                  int64_t step) {
  const double t = static_cast<double>(step);
  const double rate = learning_rate * group.learning_rate_factor;
  AdamWFactors factors;
  if (options.decay_in_gradient) {
    factors.decay = static_cast<float>(group.weight_decay);
  } else {
    factors.keep = static_cast<float>(1 - rate * group.weight_decay);
  }
  factors.beta1 = static_cast<float>(options.beta1);
  factors.beta1_rest = static_cast<float>(1 - options.beta1);
  factors.beta2 = static_cast<float>(options.beta2);
  factors.beta2_rest = static_cast<float>(1 - options.beta2);
  factors.rate = static_cast<float>(rate / (1 - pow(options.beta1, t)));
  factors.second_root = static_cast<float>(sqrt(1 - pow(options.beta2, t)));
  factors.epsilon = static_cast<float>(options.epsilon);
  factors.step = step;
  factors.frozen = group.frozen;
  return factors;
}

// Updates the moments and returns the new value.
DP_HOST_DEVICE inline float AdamWValue(const AdamWFactors& f, float gradient, float value,
                                       float& first, float& second) {
  if (f.decay != 0) gradient = gradient + f.decay * value;
  first = f.beta1 * first + f.beta1_rest * gradient;
  second = f.beta2 * second + f.beta2_rest * gradient * gradient;
  const float root = sqrtf(second) / f.second_root + f.epsilon;
  return value * f.keep - f.rate * (first / root);
}

}  // namespace dp::engine::cuda

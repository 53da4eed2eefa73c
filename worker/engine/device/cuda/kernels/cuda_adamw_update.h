#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "worker/engine/device/cuda/kernels/cuda_host_device.h"
#include "worker/engine/nn/adamw.h"

// The arithmetic of an AdamW step, written once for device and host. A test without a GPU compares
// it with nn/adamw.h.

namespace dp::engine::cuda {

// The factors of one step.
struct AdamWFactors {
  float keep = 1;   // for values that decay
  float decay = 0;  // for values that decay by their gradients
  float beta1 = 0, beta1_rest = 0;
  float beta2 = 0, beta2_rest = 0;
  float rate = 0;         // learning rate, corrected for the first moment's start at zero
  float second_root = 0;  // the same correction for the second moment's root
  float epsilon = 0;
  int64_t step = 0;
};

// `step` is counted from 1.
DP_HOST_DEVICE inline AdamWFactors AdamWFactorsOf(const AdamWOptions& options, double learning_rate,
                                                  int64_t step) {
  const double t = static_cast<double>(step);
  AdamWFactors factors;
  if (options.decay_in_gradient) {
    factors.decay = static_cast<float>(options.weight_decay);
  } else {
    factors.keep = static_cast<float>(1 - learning_rate * options.weight_decay);
  }
  factors.beta1 = static_cast<float>(options.beta1);
  factors.beta1_rest = static_cast<float>(1 - options.beta1);
  factors.beta2 = static_cast<float>(options.beta2);
  factors.beta2_rest = static_cast<float>(1 - options.beta2);
  factors.rate = static_cast<float>(learning_rate / (1 - pow(options.beta1, t)));
  factors.second_root = static_cast<float>(sqrt(1 - pow(options.beta2, t)));
  factors.epsilon = static_cast<float>(options.epsilon);
  factors.step = step;
  return factors;
}

// Updates the moments and returns the new value.
DP_HOST_DEVICE inline float AdamWValue(const AdamWFactors& f, bool decays, float gradient,
                                       float value, float& first, float& second) {
  if (decays && f.decay != 0) gradient = gradient + f.decay * value;
  first = f.beta1 * first + f.beta1_rest * gradient;
  second = f.beta2 * second + f.beta2_rest * gradient * gradient;
  const float root = sqrtf(second) / f.second_root + f.epsilon;
  return value * (decays ? f.keep : 1.0f) - f.rate * (first / root);
}

// Decay is decided for blocks of this many values; parameters begin at multiples of it.
inline constexpr int64_t kDecayBlock = 16;

// One bit for each block, the lowest first: whether its values decay.
std::vector<uint32_t> DecayBlocks(const AdamWOptions& options, const ParameterLayout& layout);

}  // namespace dp::engine::cuda

#pragma once

#include <cstdint>

#include "worker/engine/device/cuda/cuda_host_device.h"

// Random bits as functions of a counter, for device and host. base/random.h's generator adds a
// constant to its state and mixes: so its n-th draw is known without those before.

namespace dp::engine::cuda {

inline constexpr uint64_t kRandomStep = 0x9e3779b97f4a7c15;

// What the `draw`-th NextRandom (base/random.h), counted from 1, of a generator in `state` gives.
DP_HOST_DEVICE inline uint64_t RandomAt(uint64_t state, uint64_t draw) {
  uint64_t z = state + draw * kRandomStep;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The generator of a sample's dropout mask, whose draw i + 1 decides on element i.
DP_HOST_DEVICE inline uint64_t DropoutState(uint64_t seed, uint64_t draw, int64_t sample) {
  const uint64_t of_step = RandomAt(seed, 1) ^ draw;
  return RandomAt(of_step, 1) ^ static_cast<uint64_t>(sample);
}

// UnitInterval(bits) < p exactly when bits >> 11 is below this: of 2^53 steps in [0, 1), those
// below p. `p` is in [0, 1].
inline uint64_t DropoutThreshold(double p) {
  const double scaled = p * 0x1.0p53;  // exact, and an integer once p is 2^-1 or more
  const auto whole = static_cast<uint64_t>(scaled);
  return whole + (static_cast<double>(whole) < scaled ? 1 : 0);
}

DP_HOST_DEVICE inline bool Dropped(uint64_t state, int64_t element, uint64_t threshold) {
  return (RandomAt(state, static_cast<uint64_t>(element) + 1) >> 11) < threshold;
}

}  // namespace dp::engine::cuda

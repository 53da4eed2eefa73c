#pragma once

#include <cstdint>

#include "base/model/host_device.h"

// Random bits as functions of a counter, for device and host. The generator of base/random.h adds a
// constant to its state and mixes the result. Its n-th draw is therefore known without earlier
// draws.

namespace dp::engine::cuda {

inline constexpr uint64_t kRandomStep = 0x9e3779b97f4a7c15;

// The result of the `draw`-th NextRandom (base/random.h), counted from 1, on a generator in
// `state`.
DP_HOST_DEVICE inline uint64_t RandomAt(uint64_t state, uint64_t draw) {
  uint64_t z = state + draw * kRandomStep;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The generator of a sample's dropout mask. Its draw i + 1 decides on element i.
DP_HOST_DEVICE inline uint64_t DropoutState(uint64_t seed, uint64_t draw, int64_t sample) {
  const uint64_t of_step = RandomAt(seed, 1) ^ draw;
  return RandomAt(of_step, 1) ^ static_cast<uint64_t>(sample);
}

// Draw `i` of nearly normal numbers, of mean 0 and deviation 1, none beyond 3.5: the sum of four
// uniform ones.
DP_HOST_DEVICE inline float NormalAt(uint64_t seed, int64_t i) {
  const uint64_t bits = RandomAt(seed, static_cast<uint64_t>(i) + 1);
  int sum = 0;
  for (int shift = 0; shift < 64; shift += 16) sum += static_cast<int>((bits >> shift) & 0xffff);
  constexpr int kMean = 2 * 0xffff;
  constexpr float kDeviation = 37837.2f;  // 2^16 times the root of 4 / 12
  return static_cast<float>(sum - kMean) / kDeviation;
}

// UnitInterval(bits) < p exactly when bits >> 11 is below this threshold. It counts those of the
// 2^53 steps in [0, 1) that lie below p. `p` is in [0, 1].
inline uint64_t DropoutThreshold(double p) {
  const double scaled = p * 0x1.0p53;  // exact, and an integer where p is 2^-1 or more
  const auto whole = static_cast<uint64_t>(scaled);
  return whole + (static_cast<double>(whole) < scaled ? 1 : 0);
}

DP_HOST_DEVICE inline bool Dropped(uint64_t state, int64_t element, uint64_t threshold) {
  return (RandomAt(state, static_cast<uint64_t>(element) + 1) >> 11) < threshold;
}

}  // namespace dp::engine::cuda

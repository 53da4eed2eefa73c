#pragma once

#include <cstdint>

namespace dp {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): a small
// generator whose stream depends on the seed alone, on every platform. Advances `state`.
inline uint64_t NextRandom(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Maps 64 random bits to [0, 1).
inline double UnitInterval(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

// A seed from the kernel, which no other process draws. For incarnations and request ids; never in
// a core.
uint64_t EntropySeed();

}  // namespace dp

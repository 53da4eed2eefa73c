#pragma once

#include <cstdint>

#include "base/random.h"

namespace dp::engine {

// Random numbers that belong to one sample in one epoch. Equal keys give equal
// numbers, on every rank and thread.
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, uint64_t epoch, int64_t sample) : state_(seed) {
    state_ = Next() ^ epoch;
    state_ = Next() ^ static_cast<uint64_t>(sample);
  }

  uint64_t Next() { return NextRandom(state_); }

  // Uniform in [0, 1).
  double Uniform() { return UnitInterval(Next()); }
  double Uniform(double from, double to) { return from + Uniform() * (to - from); }
  // Uniform in 0 to count - 1.
  int64_t Below(int64_t count) {
    return static_cast<int64_t>(Uniform() * static_cast<double>(count));
  }

 private:
  uint64_t state_;
};

}  // namespace dp::engine

#pragma once

#include <cstdint>
#include <random>

namespace dp::engine {

// The Mersenne twister (MT19937). The C++ standard fixes its 32-bit stream, and PyTorch's CPU
// generator has the same one: same seed, same stream. PyTorch seeds it with the low 32 bits.
class Generator {
 public:
  explicit Generator(uint64_t seed) : engine_(static_cast<uint32_t>(seed)) {}

  uint32_t Next() { return static_cast<uint32_t>(engine_()); }

  // Uniform in [from, to): 24 bits of one draw, the formula of torch.Tensor.uniform_ for floats.
  float Uniform(float from, float to) {
    return static_cast<float>(Next() & 0xffffff) * 0x1.0p-24f * (to - from) + from;
  }

 private:
  std::mt19937 engine_;
};

}  // namespace dp::engine

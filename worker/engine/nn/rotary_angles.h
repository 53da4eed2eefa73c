#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace dp::engine {

// The angles by which attention turns the features of each token's row (RoPE, Su et al. 2021).
// Feature i of the first half and feature i of the second are one pair. The angle of pair i at
// place t is t / 10000^(2 i / features). Pure.
struct RotaryAngles {
  RotaryAngles(int64_t tokens, int64_t features) {
    constexpr double kBase = 10000;
    const int64_t half = features / 2;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(t) * std::pow(kBase, -static_cast<double>(i) / half);
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }

  // Tokens x pairs.
  std::vector<float> cosines;
  std::vector<float> sines;
};

}  // namespace dp::engine

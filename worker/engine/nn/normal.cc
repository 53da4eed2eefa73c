#include "worker/engine/nn/normal.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace dp::engine {
namespace {

constexpr size_t kBlock = 16;

void DrawUniform(Generator& generator, absl::Span<float> values) {
  for (float& value : values) value = generator.Uniform(0, 1);
}

// Turns uniform values into normal ones.
void BoxMuller(float std, absl::Span<float> block) {
  constexpr size_t kHalf = kBlock / 2;
  for (size_t i = 0; i < kHalf; ++i) {
    const float radius = std::sqrt(-2.0f * std::log(1.0f - block[i]));
    const float angle = 2.0f * static_cast<float>(M_PI) * block[i + kHalf];
    block[i] = radius * std::cos(angle) * std;
    block[i + kHalf] = radius * std::sin(angle) * std;
  }
}

void FillBlock(Generator& generator, float std, absl::Span<float> block) {
  DrawUniform(generator, block);
  BoxMuller(std, block);
}

}  // namespace

void FillNormal(Generator& generator, float std, absl::Span<float> values) {
  if (values.size() < kBlock) {
    std::array<float, kBlock> block;
    FillBlock(generator, std, absl::MakeSpan(block));
    std::copy_n(block.begin(), values.size(), values.begin());
    return;
  }
  DrawUniform(generator, values);
  for (size_t i = 0; i + kBlock <= values.size(); i += kBlock) {
    BoxMuller(std, values.subspan(i, kBlock));
  }
  if (values.size() % kBlock != 0) {
    FillBlock(generator, std, values.subspan(values.size() - kBlock));
  }
}

}  // namespace dp::engine

#include "worker/engine/device/cuda/cuda_random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/random.h"

namespace dp::engine::cuda {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

TEST(CudaRandomTest, AnyDrawIsThatOfTheGenerator) {
  uint64_t state = 7;
  for (uint64_t draw = 1; draw <= 1000; ++draw) {
    EXPECT_EQ(RandomAt(7, draw), NextRandom(state));
  }
}

// As device/cpu_elementwise.cc draws its masks.
TEST(CudaRandomTest, DropsWhatTheCpuDrops) {
  for (double p : {0.0, 1e-17, 0.1, 0.3, 0.5, 0.9, 0.999999}) {
    for (int64_t sample : {int64_t{0}, int64_t{1}, int64_t{59999}}) {
      uint64_t state = 3;
      state = NextRandom(state) ^ uint64_t { 17 };
      state = NextRandom(state) ^ static_cast<uint64_t>(sample);
      for (int64_t element = 0; element < 1000; ++element) {
        const bool dropped = UnitInterval(NextRandom(state)) < p;
        EXPECT_EQ(Dropped(DropoutState(3, 17, sample), element, DropoutThreshold(p)), dropped)
            << "p " << p << " sample " << sample << " element " << element;
      }
    }
  }
}

TEST(CudaRandomTest, TheThresholdIsExactAtItsBorder) {
  for (double p : {0.1, 0.25, 0.7, 1.0 / 3}) {
    const uint64_t threshold = DropoutThreshold(p);
    EXPECT_LT(UnitInterval((threshold - 1) << 11), p);
    EXPECT_GE(UnitInterval(threshold << 11), p);
  }
}

TEST(CudaRandomTest, RoundsToANeighbourAndKeepsTheMean) {
  const float value = 1.0f + 0x1.0p-7f * 0.25f;  // a quarter of the way from 1 to the next bf16
  int64_t above = 0;
  for (uint32_t random = 0; random < 65536; ++random) {
    const float rounded = FloatOf(uint32_t{RoundStochastically(BitsOf(value), random)} << 16);
    ASSERT_TRUE(rounded == 1.0f || rounded == 1.0f + 0x1.0p-7f);
    above += rounded > 1.0f;
  }
  EXPECT_EQ(above, 65536 / 4);
}

TEST(CudaRandomTest, KeepsWhatABf16Holds) {
  for (float value : {0.0f, -0.0f, 1.0f, -3.5f, 0x1.fep127f, INFINITY, -INFINITY}) {
    EXPECT_EQ(RoundStochastically(BitsOf(value), 0xffff), BitsOf(value) >> 16) << value;
  }
  EXPECT_TRUE(std::isnan(FloatOf(uint32_t{RoundStochastically(0x7f800001, 0xffff)} << 16)));
}

TEST(CudaRandomTest, NeighboursAndStepsAreRoundedByDifferentBits) {
  const uint64_t draw = RoundingDraw(1, 5, 8);
  EXPECT_EQ(draw, RoundingDraw(1, 5, 11));
  EXPECT_NE(draw, RoundingDraw(1, 5, 12));
  EXPECT_NE(draw, RoundingDraw(1, 6, 8));
  EXPECT_NE(RoundingBits(draw, 8), RoundingBits(draw, 9));
}

}  // namespace
}  // namespace dp::engine::cuda

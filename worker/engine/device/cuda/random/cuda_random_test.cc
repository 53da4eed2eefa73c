#include "worker/engine/device/cuda/random/cuda_random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace dp::engine::cuda {
namespace {

TEST(CudaRandomTest, AnyDrawIsThatOfTheGenerator) {
  uint64_t state = 7;
  for (uint64_t draw = 1; draw <= 1000; ++draw) {
    EXPECT_EQ(RandomAt(7, draw), NextRandom(state));
  }
}

// As device/cpu/cpu_elementwise.cc draws its masks.
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

TEST(CudaRandomTest, NormalNumbersHaveTheirMeanDeviationAndShape) {
  constexpr int kDraws = 1'000'000;
  double sum = 0, squares = 0, largest = 0;
  int within = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = NormalAt(5, i);
    sum += x;
    squares += x * x;
    largest = std::max(largest, std::abs(x));
    within += std::abs(x) < 1;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.005);
  EXPECT_NEAR(squares / kDraws, 1, 0.005);
  EXPECT_NEAR(within / double{kDraws}, 0.68, 0.03);
  EXPECT_LT(largest, 3.5);
}

TEST(CudaRandomTest, TheThresholdIsExactAtItsBorder) {
  for (double p : {0.1, 0.25, 0.7, 1.0 / 3}) {
    const uint64_t threshold = DropoutThreshold(p);
    EXPECT_LT(UnitInterval((threshold - 1) << 11), p);
    EXPECT_GE(UnitInterval(threshold << 11), p);
  }
}

}  // namespace
}  // namespace dp::engine::cuda

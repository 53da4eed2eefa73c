#include "worker/engine/nn/gradient_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "worker/engine/nn/clip_factor.h"

namespace dp::engine {
namespace {

TEST(GradientNormTest, IsTheRootOfTheSumOfSquares) {
  EXPECT_EQ(GradientNorm({{0, 3}}, {2, -3, 6}), 7);
  EXPECT_EQ(GradientNorm({}, {2, -3, 6}), 0);
}

TEST(GradientNormTest, LeavesOutWhatIsInNoRange) {
  EXPECT_EQ(GradientNorm({{0, 1}, {2, 1}}, {3, 100, 4}), 5);
}

// More values than a chunk has, and no multiple of the lanes.
TEST(GradientNormTest, CountsEachValueOfALongRangeOnce) {
  const int64_t size = 2 * kNormChunk + kNormLanes + 7;
  const std::vector<float> ones(size, 1);
  EXPECT_EQ(GradientNorm({{0, size}}, ones), std::sqrt(static_cast<float>(size)));
}

TEST(GradientNormTest, OfANumberThatIsNoneIsNone) {
  EXPECT_TRUE(std::isnan(GradientNorm({{0, 2}}, {1, std::nanf("")})));
  EXPECT_TRUE(std::isinf(GradientNorm({{0, 2}}, {1, std::numeric_limits<float>::infinity()})));
}

TEST(GradientNormTest, SquaresThatAFloatCannotHoldAreSummed) {
  EXPECT_FLOAT_EQ(GradientNorm({{0, 1}}, {1e30f}), 1e30f);
}

TEST(ClipFactorTest, LeavesSmallGradientsAndShrinksLargeOnes) {
  EXPECT_EQ(ClipFactor(1, 0.5f), 1);
  EXPECT_NEAR(ClipFactor(1, 4), 0.25, 1e-6);
  EXPECT_EQ(ClipFactor(1, 0), 1);
}

}  // namespace
}  // namespace dp::engine

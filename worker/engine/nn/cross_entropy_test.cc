#include "worker/engine/nn/cross_entropy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dp::engine {
namespace {

using ::testing::Each;

const std::vector<float> kLogits = {1, 2, 3, 0, 0, 0, 9, 9, 9};  // 3 samples, 3 classes

TEST(CrossEntropyTest, SumsTheLossAndCountsHits) {
  const CrossEntropy result = SoftmaxCrossEntropy(kLogits, 3, {2, 1});
  const double first = std::log(std::exp(-2) + std::exp(-1) + 1);
  EXPECT_NEAR(result.loss_sum, first + std::log(3), 1e-6);
  EXPECT_EQ(result.correct, 1);
}

TEST(CrossEntropyTest, OfEqualLogitsTheFirstIsTheGuess) {
  EXPECT_EQ(SoftmaxCrossEntropy(kLogits, 3, {0, 0}).correct, 1);
}

TEST(CrossEntropyTest, LargeLogitsDoNotOverflow) {
  EXPECT_NEAR(SoftmaxCrossEntropy({1000, 0}, 2, {1}).loss_sum, 1000, 1e-3);
}

TEST(CrossEntropyTest, PaddedRowsGetNoGradient) {
  std::vector<float> gradient(9, 7.0f);
  SoftmaxCrossEntropyGradient(kLogits, 3, {2, 1}, 1, absl::MakeSpan(gradient));
  EXPECT_THAT(absl::MakeSpan(gradient).subspan(6), Each(0.0f));
}

TEST(CrossEntropyTest, TheGradientIsTheSlopeOfTheLossTimesScale) {
  std::vector<float> gradient(9);
  SoftmaxCrossEntropyGradient(kLogits, 3, {2, 1}, 0.5f, absl::MakeSpan(gradient));
  for (size_t i = 0; i < 6; ++i) {
    std::vector<float> up = kLogits, down = kLogits;
    up[i] += 1e-2f;
    down[i] -= 1e-2f;
    const double slope = (SoftmaxCrossEntropy(up, 3, {2, 1}).loss_sum -
                          SoftmaxCrossEntropy(down, 3, {2, 1}).loss_sum) /
                         2e-2;
    EXPECT_NEAR(gradient[i], 0.5 * slope, 1e-4) << i;
  }
}

}  // namespace
}  // namespace dp::engine

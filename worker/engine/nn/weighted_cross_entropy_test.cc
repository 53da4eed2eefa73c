#include "worker/engine/nn/weighted_cross_entropy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dp::engine {
namespace {

using ::testing::Each;

constexpr int kIgnored = 9;

// Two rows that count, with an ignored one between. Every output of a row is the same, so each
// logarithm is that of a half.
class WeightedCrossEntropyTest : public ::testing::Test {
 protected:
  LossInput Input() const {
    return {.outputs = outputs_, .columns = 2, .rows = 3, .labels = labels_};
  }
  std::vector<float> Gradient(const CrossEntropyLoss& loss, float scale) const {
    std::vector<float> gradient(outputs_.size(), 7.0f);
    LossGradient(loss, Input(), scale, absl::MakeSpan(gradient));
    return gradient;
  }

  std::vector<float> outputs_ = {1, 1, NAN, NAN, 5, 5};
  const std::vector<int32_t> labels_ = {0, kIgnored, 1};
};

TEST_F(WeightedCrossEntropyTest, IgnoredRowsHaveNeitherLossNorGradient) {
  const CrossEntropyLoss loss = {.ignored = kIgnored};
  EXPECT_NEAR(SumLoss(loss, Input()).loss_sum, 2 * std::log(2), 1e-6);
  EXPECT_EQ(SumLoss(loss, Input()).correct, 1);  // the first of equal outputs
  EXPECT_THAT(absl::MakeConstSpan(Gradient(loss, 1)).subspan(2, 2), Each(0.0f));
  EXPECT_EQ(TotalsOf(loss, 3, labels_).counted, 2);
  EXPECT_EQ(TotalsOf(loss, 3, labels_).weight, 2);
}

TEST_F(WeightedCrossEntropyTest, ARowWeighsAsMuchAsItsClass) {
  const CrossEntropyLoss loss = {.ignored = kIgnored, .class_weights = {0.5f, 4}};
  EXPECT_NEAR(SumLoss(loss, Input()).loss_sum, 4.5 * std::log(2), 1e-6);
  EXPECT_EQ(TotalsOf(loss, 3, labels_).weight, 4.5);
  const std::vector<float> gradient = Gradient(loss, 2);
  EXPECT_NEAR(gradient[0], -0.5, 1e-6);
  EXPECT_NEAR(gradient[5], -4, 1e-6);
}

TEST_F(WeightedCrossEntropyTest, RowsWithoutLabelsCountOne) {
  for (const Loss& loss : {Loss(MseLoss{}), Loss(NormLoss{})}) {
    EXPECT_EQ(TotalsOf(loss, 3, {}).counted, 3);
    EXPECT_EQ(TotalsOf(loss, 3, {}).weight, 3);
  }
}

// As PyTorch: the part of smoothing weighs each class, not the label.
TEST_F(WeightedCrossEntropyTest, SmoothingWeighsEachClassByItself) {
  const CrossEntropyLoss loss = {
      .label_smoothing = 0.5, .ignored = kIgnored, .class_weights = {0.5f, 4}};
  const double smoothed = 2 * (0.5 / 2) * (0.5 + 4);
  EXPECT_NEAR(SumLoss(loss, Input()).loss_sum, (0.5 * 4.5 + smoothed) * std::log(2), 1e-6);
}

TEST_F(WeightedCrossEntropyTest, WeightsOfOneChangeNothing) {
  outputs_ = {0.5f, -2, 1, 0.25f, 3, 0};
  const std::vector<int32_t> labels = {0, 1, 1};
  const LossInput input = {.outputs = outputs_, .columns = 2, .rows = 3, .labels = labels};
  for (const double smoothing : {0.0, 0.1}) {
    const CrossEntropyLoss plain = {smoothing}, weighted = {smoothing, {}, {1, 1}};
    EXPECT_NEAR(SumLoss(weighted, input).loss_sum, SumLoss(plain, input).loss_sum, 1e-5);
    std::vector<float> expected(6), gradient(6);
    LossGradient(plain, input, 0.3f, absl::MakeSpan(expected));
    LossGradient(weighted, input, 0.3f, absl::MakeSpan(gradient));
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(gradient[i], expected[i], 1e-7);
  }
}

}  // namespace
}  // namespace dp::engine

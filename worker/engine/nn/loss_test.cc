#include "worker/engine/nn/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dp::engine {
namespace {

using ::testing::Each;

// Three rows of two outputs; the last row is padding.
class LossTest : public ::testing::TestWithParam<Loss> {
 protected:
  LossInput Input() const { return {outputs_, 2, 2, labels_, targets_}; }
  double Sum() const { return SumLoss(GetParam(), Input()).loss_sum; }
  std::vector<float> Gradient(float scale) const {
    std::vector<float> gradient(outputs_.size(), 7.0f);
    LossGradient(GetParam(), Input(), scale, absl::MakeSpan(gradient));
    return gradient;
  }

  std::vector<float> outputs_ = {0.5f, -1.25f, 2.0f, 0.25f, NAN, NAN};
  const std::vector<int32_t> labels_ = {1, 0, -1};
  const std::vector<float> targets_ = {1.0f, 0.0f, 0.25f, 0.75f, NAN, NAN};
};

TEST_P(LossTest, TheGradientIsTheSlopeOfTheSumTimesScale) {
  const std::vector<float> gradient = Gradient(0.5f);
  for (size_t i = 0; i < 4; ++i) {
    const float at = outputs_[i];
    outputs_[i] = at + 1.0f / 256;
    const double up = Sum();
    outputs_[i] = at - 1.0f / 256;
    const double down = Sum();
    outputs_[i] = at;
    EXPECT_NEAR(gradient[i], 0.5 * (up - down) * 128, 1e-4) << i;
  }
}

TEST_P(LossTest, PaddingGetsNoGradient) {
  EXPECT_THAT(absl::MakeConstSpan(Gradient(1)).subspan(4), Each(0.0f));
}

TEST_P(LossTest, ANanIsInTheSumAndInTheGradient) {
  outputs_[1] = NAN;
  EXPECT_TRUE(std::isnan(Sum()));
  EXPECT_TRUE(std::isnan(Gradient(1)[1]));
}

INSTANTIATE_TEST_SUITE_P(All, LossTest,
                         ::testing::Values(CrossEntropyLoss{}, CrossEntropyLoss{0.2},
                                           CrossEntropyLoss{0, 7}, CrossEntropyLoss{0, {}, {2, 3}},
                                           CrossEntropyLoss{0.2, 7, {2, 3}}, MseLoss{}, L1Loss{},
                                           BceLoss{}, NormLoss{}));

LossSum Of(const Loss& loss, std::vector<float> outputs, std::vector<float> targets) {
  const auto columns = static_cast<int>(outputs.size());
  return SumLoss(loss, {.outputs = outputs, .columns = columns, .rows = 1, .targets = targets});
}

TEST(LossTest, ValuesByHand) {
  EXPECT_NEAR(Of(MseLoss{}, {1, 5}, {3, 4}).loss_sum, (4 + 1) / 2.0, 1e-12);
  EXPECT_NEAR(Of(L1Loss{}, {1, 5}, {3, 4}).loss_sum, (2 + 1) / 2.0, 1e-12);
  EXPECT_NEAR(Of(BceLoss{}, {0, 0}, {1, 0.5f}).loss_sum, std::log(2), 1e-12);
  EXPECT_NEAR(Of(BceLoss{}, {800, -800}, {0, 0}).loss_sum, 400, 1e-9);
  EXPECT_NEAR(Of(NormLoss{}, {3, 4}, {}).loss_sum, 5, 1e-12);
  EXPECT_TRUE(std::isnan(Of(BceLoss{}, {0, 0}, {0, 1.5f}).loss_sum));
  EXPECT_TRUE(std::isnan(Of(BceLoss{}, {0, 0}, {-0.5f, 1}).loss_sum));
}

TEST(LossTest, TheNormCountsOnceForEachRow) {
  const std::vector<float> outputs = {3, 4};
  EXPECT_NEAR(SumLoss(NormLoss{}, {.outputs = outputs, .columns = 1, .rows = 2}).loss_sum, 10,
              1e-12);
  std::vector<float> gradient(2);
  LossGradient(NormLoss{}, {.outputs = outputs, .columns = 1, .rows = 2}, 0.5f,
               absl::MakeSpan(gradient));
  EXPECT_NEAR(gradient[0], 0.6, 1e-7);
  EXPECT_NEAR(gradient[1], 0.8, 1e-7);
}

TEST(LossTest, TheNormOfZerosHasNoSlope) {
  const std::vector<float> outputs = {0, 0};
  std::vector<float> gradient(2, 7.0f);
  LossGradient(NormLoss{}, {.outputs = outputs, .columns = 2, .rows = 1}, 1,
               absl::MakeSpan(gradient));
  EXPECT_THAT(gradient, Each(0.0f));
}

// With uniform outputs every class costs the same, whatever the target.
TEST(LossTest, SmoothingOfUniformOutputsChangesNothing) {
  const std::vector<float> outputs = {1, 1, 1};
  const std::vector<int32_t> labels = {2};
  const LossInput input = {.outputs = outputs, .columns = 3, .rows = 1, .labels = labels};
  EXPECT_NEAR(SumLoss(CrossEntropyLoss{0.3}, input).loss_sum, std::log(3), 1e-6);
  EXPECT_EQ(SumLoss(CrossEntropyLoss{0.3}, input).correct, 0);
}

}  // namespace
}  // namespace dp::engine

#include "worker/trainer/loop/step_parts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

using ::testing::ElementsAre;

TEST(StepPartsTest, RowsAreRoundedUp) {
  const auto rows = [](int batch, int accumulate) {
    TrainingPlan plan;
    plan.accumulate = accumulate;
    return RowsOf(
        plan, engine::GlobalBatchSampler({.n = 100, .global_batch_size = batch, .world_size = 2}));
  };
  EXPECT_EQ(rows(12, 1), 6);
  EXPECT_EQ(rows(12, 2), 3);
  EXPECT_EQ(rows(12, 4), 2);
  EXPECT_EQ(rows(13, 3), 3);
}

class ShareTest : public ::testing::Test {
 protected:
  // A share of five rows, with two pixels and one label each.
  engine::Batch Share(int count) const { return {images_, labels_, samples_, count, /*draw=*/7}; }

  const std::vector<float> images_ = {0, 1, 10, 11, 20, 21, 30, 31, 40, 41};
  const std::vector<int32_t> labels_ = {0, 1, 2, 3, 4};
  const std::vector<int64_t> samples_ = {100, 101, 102, 103, 104};
};

TEST_F(ShareTest, EachSampleIsInOnePart) {
  StepParts parts(2);
  ASSERT_EQ(parts.CountOf(Share(5)), 3);
  const engine::Batch first = parts.PartOf(Share(5), 0);
  EXPECT_THAT(first.images, ElementsAre(0, 1, 10, 11));
  EXPECT_THAT(first.samples, ElementsAre(100, 101));
  EXPECT_EQ(first.count, 2);
  EXPECT_EQ(first.draw, 7u);
  EXPECT_THAT(parts.PartOf(Share(5), 1).labels, ElementsAre(2, 3));
}

TEST_F(ShareTest, TheLastPartIsPadded) {
  StepParts parts(2);
  const engine::Batch last = parts.PartOf(Share(5), 2);
  EXPECT_THAT(last.images, ElementsAre(40, 41, 0, 0));
  EXPECT_THAT(last.labels, ElementsAre(4, 0));
  EXPECT_THAT(last.samples, ElementsAre(104, 0));
  EXPECT_EQ(last.count, 1);
}

TEST_F(ShareTest, PartsWithoutSamplesAreLeftOut) {
  StepParts parts(2);
  EXPECT_EQ(parts.CountOf(Share(4)), 2);
  EXPECT_EQ(parts.CountOf(Share(2)), 1);
  EXPECT_EQ(parts.CountOf(Share(0)), 1);
  EXPECT_EQ(parts.PartOf(Share(3), 1).count, 1);
  EXPECT_EQ(parts.PartOf(Share(0), 0).count, 0);
}

}  // namespace
}  // namespace dp::trainer

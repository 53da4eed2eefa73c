#include "worker/engine/ddp/bucket_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/ddp/testing/layout_of_sizes.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The number of parameters in each bucket.
std::vector<int> Counts(const std::vector<Bucket>& plan) {
  std::vector<int> counts;
  for (const Bucket& bucket : plan) counts.push_back(bucket.parameters);
  return counts;
}

constexpr BucketPlanOptions kSmall{.first_bytes = 128, .cap_bytes = 256};  // 32 and 64 floats

TEST(BucketPlanTest, TheFirstBucketHasItsOwnCap) {
  EXPECT_THAT(Counts(PlanBuckets(LayoutOfSizes({16, 16, 16, 16, 16, 16, 16}), kSmall)),
              ElementsAre(2, 4, 1));
}

TEST(BucketPlanTest, TheDefaultCapsAreOneAndTwentyFiveMebibytes) {
  const std::vector<int64_t> quarters(105, 65536);  // of a MiB
  EXPECT_THAT(Counts(PlanBuckets(LayoutOfSizes(quarters))), ElementsAre(4, 100, 1));
}

TEST(BucketPlanTest, AParameterAboveTheCapIsAlone) {
  EXPECT_THAT(Counts(PlanBuckets(LayoutOfSizes({100, 16, 1000, 16, 16}), kSmall)),
              ElementsAre(1, 1, 1, 2));
}

TEST(BucketPlanTest, BucketsCoverEveryParameterInOneRangeEach) {
  const ParameterLayout layout = LayoutOfSizes({3, 17, 40, 64, 1, 200, 5});
  int next = 0;
  for (const Bucket& bucket : PlanBuckets(layout, kSmall)) {
    EXPECT_EQ(bucket.first_parameter, next);
    EXPECT_EQ(bucket.offset, layout.parameters[next].offset);
    next += bucket.parameters;
    const Parameter& last = layout.parameters[next - 1];
    EXPECT_EQ(bucket.offset + bucket.size, last.offset + last.size);
  }
  EXPECT_EQ(next, 7);
}

TEST(BucketPlanTest, ABucketHasOneTypeAndCountsItsBytes) {
  const std::vector<GradientRange> gradients = {{0, 16, DataType::kFloat64},
                                                {16, 16, DataType::kFloat64},  // 128 bytes each
                                                {128, 32, DataType::kBfloat16},
                                                {160, 32, DataType::kBfloat16},  // 64 bytes each
                                                {192, 32, DataType::kBfloat16}};
  const std::vector<Bucket> plan = PlanBuckets(gradients, {.first_bytes = 128, .cap_bytes = 128});
  EXPECT_THAT(Counts(plan), ElementsAre(1, 1, 2, 1));
  EXPECT_EQ(plan[2].type, DataType::kBfloat16);
  EXPECT_EQ(plan[2].offset, 128);
  EXPECT_EQ(plan[2].size, 64);
}

TEST(BucketPlanTest, AModelWithoutParametersHasNoBuckets) {
  EXPECT_THAT(PlanBuckets(LayoutOfSizes({})), IsEmpty());
}

}  // namespace
}  // namespace dp::engine

#include "worker/library/ddp/gradient_layout.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::library {
namespace {

using engine::DataType;
using ::testing::ElementsAre;

TEST(GradientLayoutTest, GradientsLieInTheOrderOfReadinessOnCacheLines) {
  const std::vector<GradientSize> gradients = {{3}, {20}, {16}};
  const GradientLayout layout = LayOutGradients(gradients, {2, 0, 1}, {.cap_bytes = 1 << 20});
  EXPECT_THAT(layout.parameters, ElementsAre(2, 0, 1));
  EXPECT_THAT(layout.places, ElementsAre(1, 2, 0));
  EXPECT_EQ(layout.offset_bytes(2), 0u);
  EXPECT_EQ(layout.offset_bytes(0), 64u);
  EXPECT_EQ(layout.offset_bytes(1), 128u);
  EXPECT_EQ(layout.bytes, 256u);
  ASSERT_EQ(layout.buckets.size(), 1u);
  EXPECT_EQ(layout.buckets[0].size, 32 + 20);
}

TEST(GradientLayoutTest, TypesLieTogetherAndTheArrayIsAsLongInAnyOrder) {
  const std::vector<GradientSize> gradients = {
      {5, DataType::kFloat32}, {7, DataType::kFloat64}, {40, DataType::kFloat32}};
  const GradientLayout layout = LayOutGradients(gradients, {0, 1, 2}, {.cap_bytes = 1 << 20});
  EXPECT_THAT(layout.parameters, ElementsAre(0, 2, 1));
  ASSERT_EQ(layout.buckets.size(), 2u);
  EXPECT_EQ(layout.buckets[1].type, DataType::kFloat64);
  EXPECT_EQ(layout.buckets[1].offset, static_cast<int64_t>(layout.offset_bytes(1) / 8));
  EXPECT_EQ(LayOutGradients(gradients, {1, 2, 0}, {}).bytes, layout.bytes);
}

}  // namespace
}  // namespace dp::library

#include "worker/library/ddp/gradient_scale.h"

#include <cmath>
#include <limits>
#include <vector>

#include "dp/ddp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/thrown.h"

namespace dp::distributed {
namespace {

using library::ErrorOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ClipGradNormTest, ScalesAllGradientsByTheirCommonNorm) {
  std::vector<float> one = {3, 0};
  std::vector<double> two = {-4};
  std::vector<Bfloat16> three = {Bfloat16(12.0f)};
  const std::vector<MutableElements> gradients = {one, two, three};
  EXPECT_DOUBLE_EQ(clip_grad_norm(gradients, 26), 13);
  EXPECT_THAT(one, ElementsAre(3, 0));  // below the limit
  EXPECT_DOUBLE_EQ(clip_grad_norm(gradients, 6.5), 13);
  EXPECT_NEAR(one[0], 1.5, 1e-6);
  EXPECT_NEAR(two[0], -2, 1e-6);
  EXPECT_EQ(static_cast<float>(three[0]), 6);
}

// As PyTorch's, which error_if_nonfinite does not stop.
TEST(ClipGradNormTest, NaNSpreadsAndInfinityLeavesZeros) {
  std::vector<float> some = {3, std::nanf("")}, more = {4};
  EXPECT_TRUE(std::isnan(clip_grad_norm(std::vector<MutableElements>{some, more}, 100)));
  EXPECT_TRUE(std::isnan(some[0]) && std::isnan(more[0]));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> huge = {3, -kInfinity}, finite = {4};
  EXPECT_EQ(clip_grad_norm(std::vector<MutableElements>{huge, finite}, 100), kInfinity);
  EXPECT_EQ(huge[0], 0);
  EXPECT_TRUE(std::isnan(huge[1]));
  EXPECT_EQ(finite[0], 0);
}

TEST(ClipGradNormTest, RejectsBoundsAndTypesByName) {
  std::vector<int32_t> integers = {1};
  const std::vector<MutableElements> gradients = {integers};
  EXPECT_THAT(ErrorOf([&] { clip_grad_norm(gradients, 1); }).what(), HasSubstr("int32"));
  EXPECT_THAT(ErrorOf([&] { clip_grad_norm({}, 0); }).what(), HasSubstr("max_norm is 0"));
}

TEST(ChecksumTest, DiffersByABit) {
  std::vector<uint8_t> bytes(64);
  const uint64_t before = library::ChecksumOf(bytes);
  EXPECT_EQ(library::ChecksumOf(bytes), before);
  bytes[63] = 1;
  EXPECT_NE(library::ChecksumOf(bytes), before);
}

}  // namespace
}  // namespace dp::distributed

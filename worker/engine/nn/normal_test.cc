#include "worker/engine/nn/normal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace dp::engine {
namespace {

std::vector<float> NormalValues(size_t size, float std) {
  Generator generator(3);
  std::vector<float> values(size);
  FillNormal(generator, std, absl::MakeSpan(values));
  return values;
}

TEST(NormalTest, HasItsMeanAndStandardDeviation) {
  const std::vector<float> values = NormalValues(100'003, 0.02f);
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  EXPECT_NEAR(mean, 0, 5 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 2e-4);
}

TEST(NormalTest, TheLastBlockIsDrawnAnewWhereItIsNotWhole) {
  const std::vector<float> whole = NormalValues(32, 1), more = NormalValues(35, 1);
  EXPECT_TRUE(std::equal(whole.begin(), whole.begin() + 19, more.begin()));
  EXPECT_NE(whole[19], more[19]);
}

// The result of torch.manual_seed(3); torch.empty(16).normal_().
const std::vector<float> kPyTorch = {-0.076644294f, 0.35988152f,  -0.78201681f, 0.071527734f,
                                     0.66483939f,   -0.2867803f,  1.6205508f,   -1.5967081f,
                                     -0.051680963f, -0.30597571f, 0.24850175f,  -0.22256084f,
                                     0.91315192f,   0.20434111f,  0.57398468f,  0.41633129f};

TEST(NormalTest, EqualsPyTorch) {
  EXPECT_THAT(NormalValues(16, 1), ::testing::Pointwise(::testing::FloatNear(2e-6f), kPyTorch));
}

}  // namespace
}  // namespace dp::engine

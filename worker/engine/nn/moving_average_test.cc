#include "worker/engine/nn/moving_average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dp::engine {
namespace {

using ::testing::ElementsAre;

TEST(MovingAverageTest, BeginsAtTheFirstValuesAndFollowsThem) {
  std::vector<float> average = {7, 7};
  UpdateAverage(0.75, /*first=*/true, {2, -4}, absl::MakeSpan(average));
  EXPECT_THAT(average, ElementsAre(2, -4));
  UpdateAverage(0.75, /*first=*/false, {6, -4}, absl::MakeSpan(average));
  EXPECT_THAT(average, ElementsAre(3, -4));
}

}  // namespace
}  // namespace dp::engine

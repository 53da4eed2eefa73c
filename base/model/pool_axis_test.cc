#include "base/model/pool_axis.h"

#include <gtest/gtest.h>

namespace dp::model {
namespace {

const PoolAxis kAxes[] = {
    {.in = 8, .out = 4, .kernel = 2, .stride = 2},
    {.in = 10, .out = 5, .kernel = 3, .stride = 2, .padding = 1},
    {.in = 7, .out = 2, .kernel = 2, .stride = 4},
    {.in = 5, .out = 5, .kernel = 3, .stride = 1, .padding = 1},
    {.in = 8, .out = 2},
    {.in = 8, .out = 3},
    {.in = 8, .out = 5},
    {.in = 3, .out = 7},
    {.in = 7, .out = 1},
};

TEST(PoolAxisTest, TheWindowsOfAPlaceAreThoseThatContainIt) {
  for (const PoolAxis& axis : kAxes) {
    for (int64_t place = 0; place < axis.in; ++place) {
      for (int64_t i = 0; i < axis.out; ++i) {
        const bool contains = axis.Begin(i) <= place && place < axis.End(i);
        const bool found = axis.First(place) <= i && i <= axis.Last(place);
        EXPECT_EQ(found, contains)
            << axis.in << ">" << axis.out << " place " << place << " window " << i;
      }
    }
  }
}

TEST(PoolAxisTest, PaddingCountsInTheMeanOfASlidingWindow) {
  const PoolAxis axis = {.in = 10, .out = 5, .kernel = 3, .stride = 2, .padding = 1};
  EXPECT_EQ(axis.Begin(0), 0);
  EXPECT_EQ(axis.End(0), 2);
  EXPECT_EQ(axis.Extent(0), 3);
}

TEST(PoolAxisTest, AdaptiveWindowsCoverTheAxis) {
  const PoolAxis axis = {.in = 8, .out = 3};  // 0 to 3, 2 to 6, 5 to 8
  EXPECT_EQ(axis.End(0), 3);
  EXPECT_EQ(axis.Begin(1), 2);
  EXPECT_EQ(axis.End(1), 6);
  EXPECT_EQ(axis.Begin(2), 5);
  EXPECT_EQ(axis.Extent(1), 4);
}

}  // namespace
}  // namespace dp::model

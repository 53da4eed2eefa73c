#include "base/natural_order.h"

#include "gtest/gtest.h"

namespace dp {
namespace {

TEST(NaturalOrderTest, NumbersCountAsNumbers) {
  EXPECT_TRUE(NaturallyLess("node2", "node10"));
  EXPECT_TRUE(NaturallyLess("node", "node1"));
  EXPECT_TRUE(NaturallyLess("rack1-node20", "rack2-node3"));
  EXPECT_FALSE(NaturallyLess("node10", "node2"));
  EXPECT_FALSE(NaturallyLess("node1", "node1"));
}

TEST(NaturalOrderTest, NamesEqualAsNumbersAreStillOrdered) {
  EXPECT_NE(NaturallyLess("node02", "node2"), NaturallyLess("node2", "node02"));
}

}  // namespace
}  // namespace dp

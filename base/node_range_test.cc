#include "base/node_range.h"

#include "gtest/gtest.h"

namespace dp {
namespace {

TEST(NodeRangeTest, ANumberIsBothEnds) { EXPECT_EQ(*ParseNodeRange("2"), (NodeRange{2, 2})); }

TEST(NodeRangeTest, ARangeHasTwo) { EXPECT_EQ(*ParseNodeRange("1:4"), (NodeRange{1, 4})); }

TEST(NodeRangeTest, WhatIsNoRangeIsNamed) {
  for (const char* bad : {"", "0", "-1", "4:1", "1:", ":2", "two", "1:2:3", "99999", "1:99999"}) {
    const auto range = ParseNodeRange(bad);
    ASSERT_FALSE(range.ok()) << bad;
    EXPECT_EQ(range.status().message().find("is \"" + std::string(bad) + "\""), 0u) << bad;
  }
}

}  // namespace
}  // namespace dp

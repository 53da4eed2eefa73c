#include "base/utf8.h"

#include "gtest/gtest.h"

namespace dp {
namespace {

TEST(Utf8Test, ATextIsWellFormedWhereAllOfItIs) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("a\xC3\xA4\xE2\x82\xAC"));
  EXPECT_FALSE(IsUtf8("a\xC3"));
  EXPECT_FALSE(IsUtf8("\xFFz"));
}

TEST(Utf8Test, WellFormedSequencesHaveTheirLength) {
  EXPECT_EQ(Utf8SequenceLength("a"), 1u);
  EXPECT_EQ(Utf8SequenceLength("\xC3\xA4x"), 2u);
  EXPECT_EQ(Utf8SequenceLength("\xE2\x82\xAC"), 3u);
  EXPECT_EQ(Utf8SequenceLength("\xF4\x8F\xBF\xBF"), 4u);  // U+10FFFF
}

TEST(Utf8Test, WhatIsNoCharacterHasNone) {
  EXPECT_EQ(Utf8SequenceLength("\x80"), 0u);              // a continuation alone
  EXPECT_EQ(Utf8SequenceLength("\xC3"), 0u);              // cut
  EXPECT_EQ(Utf8SequenceLength("\xC3x"), 0u);             // broken
  EXPECT_EQ(Utf8SequenceLength("\xC0\xAF"), 0u);          // overlong
  EXPECT_EQ(Utf8SequenceLength("\xE0\x80\x80"), 0u);      // overlong
  EXPECT_EQ(Utf8SequenceLength("\xED\xA0\x80"), 0u);      // a surrogate
  EXPECT_EQ(Utf8SequenceLength("\xF4\x90\x80\x80"), 0u);  // beyond Unicode
}

TEST(Utf8Test, APrefixEndsBetweenCharacters) {
  EXPECT_EQ(Utf8Prefix("a\xE2\x82\xAC", 4), "a\xE2\x82\xAC");
  EXPECT_EQ(Utf8Prefix("a\xE2\x82\xAC", 3), "a");
  EXPECT_EQ(Utf8Prefix("\xE2\x82\xAC", 1), "");
}

}  // namespace
}  // namespace dp

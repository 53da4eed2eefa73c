#include "base/data/text/json_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dp::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(JsonNumbersTest, MembersKeepTheirOrder) {
  EXPECT_THAT(*ParseJsonNumbers(R"( { "b" : 2 , "a":10,"":0 } )"),
              ElementsAre(Pair("b", 2), Pair("a", 10), Pair("", 0)));
  EXPECT_THAT(*ParseJsonNumbers("{}"), IsEmpty());
}

TEST(JsonNumbersTest, EscapesAreCharacters) {
  EXPECT_THAT(*ParseJsonNumbers(R"({"\u0120the\"\\\/\n": 1, "\ud83d\ude00": 2, "\u00e4Ġ": 3})"),
              ElementsAre(Pair("\u0120the\"\\/\n", 1), Pair("\U0001f600", 2), Pair("äĠ", 3)));
}

TEST(JsonNumbersTest, AnythingElseIsRefusedWithItsPlace) {
  EXPECT_THAT(ParseJsonNumbers(R"({"a": 1, "b": -1})").status().message(),
              HasSubstr("byte 14: expected a whole number"));
  for (const char* wrong : {"", "[", "{", R"({"a"})", R"({"a":})", R"({"a":1.5})", R"({"a":1,})",
                            R"({"a":1} x)", R"({"a:1})", R"({"\x": 1})", R"({"\u12g4": 1})",
                            R"({"\ud83d": 1})", R"({"\ud83d\u0041": 1})", R"({"\ude00": 1})",
                            "{\"\n\": 1}", R"({"a":99999999999999999999})", R"({"\u12)"}) {
    EXPECT_FALSE(ParseJsonNumbers(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace dp::data

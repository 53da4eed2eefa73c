#include "base/security/visible_text.h"

#include <gtest/gtest.h>

#include <string>

namespace dp::security {
namespace {

TEST(VisibleTextTest, NamesOfPeopleAreVisible) {
  for (const char* name : {"", "ann", "ann@example.org", "Ann B. Smith", "J\u00fcrgen",
                           "\u5f20\u4f1f", "\u05d3\u05d5\u05d3", "~!#"}) {
    EXPECT_TRUE(IsVisibleText(name)) << name;
  }
}

TEST(VisibleTextTest, SpacesAtTheEndsAreNot) {
  for (const char* name : {" ", " ann", "ann ", " ann "}) EXPECT_FALSE(IsVisibleText(name)) << name;
}

TEST(VisibleTextTest, NorAreCharactersThatNobodySees) {
  for (const std::string hidden :
       {"\n",     "\t",     "\x7f",       "\u0085",     "\u00a0",     "\u00ad",    "\u034f",
        "\u061c", "\u115f", "\u180e",     "\u200b",     "\u200d",     "\u200e",    "\u202e",
        "\u2066", "\u2028", "\u2003",     "\u3000",     "\u3164",     "\ufe0f",    "\ufeff",
        "\uffa0", "\ufff9", "\U0001d173", "\U000e0041", "\U00013430", "\U0001fffe"}) {
    EXPECT_FALSE(IsVisibleText("an" + hidden + "n"));
  }
  EXPECT_FALSE(IsVisibleText(std::string("a\0b", 3)));
}

TEST(VisibleTextTest, NorAreBytesThatAreNotUtf8) {
  for (const char* bytes : {"\xff", "ann\xc3", "\xed\xa0\x80"}) EXPECT_FALSE(IsVisibleText(bytes));
}

}  // namespace
}  // namespace dp::security

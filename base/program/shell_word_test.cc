#include "base/program/shell_word.h"

#include <gtest/gtest.h>

namespace dp {
namespace {

TEST(ShellWordTest, PlainWordsStayAsTheyAre) {
  for (const char* word :
       {"ann", "ann@example.org", "head:7070", "/etc/dp/ca.crt", "node-7.rack_1"}) {
    EXPECT_EQ(ShellWord(word), word);
  }
}

TEST(ShellWordTest, WordsThatAShellReadsInAnotherWayStandInQuotes) {
  EXPECT_EQ(ShellWord("[::1]:7073"), "'[::1]:7073'");
  EXPECT_EQ(ShellWord("Ann Smith"), "'Ann Smith'");
  EXPECT_EQ(ShellWord("$HOME; rm *"), "'$HOME; rm *'");
  EXPECT_EQ(ShellWord("~ann"), "'~ann'");
  EXPECT_EQ(ShellWord("o'neil"), "'o'\\''neil'");
  EXPECT_EQ(ShellWord(""), "''");
}

}  // namespace
}  // namespace dp

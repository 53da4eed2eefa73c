#include "client/dpctl/view/terminal_text.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

using namespace std::string_literals;

// The text in two pieces, as it is shown behind each other.
std::string InPieces(absl::string_view text, size_t at) {
  std::string cut;
  const std::string first = TerminalText(text.substr(0, at), &cut);
  EXPECT_LE(cut.size(), kCutBytesMax);
  return absl::StrCat(first, TerminalText(absl::StrCat(cut, text.substr(at))));
}

TEST(TerminalTextTest, ColoursTabsAndLineEndsStay) {
  for (const char* text : {"\x1b[1;31mred\x1b[0m", "a\tb\r\n", "\r 10%\r 20%",
                           "\x1b[38:2:1:2:3mx\x1b[m", "Jörg ✓ 🎉"}) {
    EXPECT_EQ(TerminalText(text), text);
  }
}

TEST(TerminalTextTest, EveryOtherControlCharacterIsShown) {
  EXPECT_EQ(TerminalText("\x1b]0;title\a"), "\\x1b]0;title\\x07");
  EXPECT_EQ(TerminalText("\x1b[2J\x1b[1A"), "\\x1b[2J\\x1b[1A");
  EXPECT_EQ(TerminalText("a\bb\x7f\0"s), "a\\x08b\\x7f\\x00");
  EXPECT_EQ(TerminalText("\xc2\x9b"
                         "2J"),
            "\\u009b2J");
  EXPECT_EQ(TerminalText("\x9b"
                         "2J"),
            "\\x9b2J");  // no UTF-8
  EXPECT_EQ(TerminalText("\xe9t\xe9"), "\xe9t\xe9");
}

TEST(TerminalTextTest, AColourEndsWithItsText) {
  EXPECT_EQ(TerminalText("\x1b[8mhidden"), "\x1b[8mhidden\x1b[0m");
  EXPECT_EQ(TerminalText("\x1b[31mdos\r"), "\x1b[31mdos\x1b[0m\r");
}

TEST(TerminalTextTest, ASequenceOfWhichTheRestNeverComesIsShown) {
  EXPECT_EQ(TerminalText("100%\x1b[3"), "100%\\x1b[3");
  EXPECT_EQ(TerminalText("\x1b"), "\\x1b");
  const std::string endless = "\x1b[" + std::string(100, '1') + "m";
  std::string cut;
  EXPECT_EQ(TerminalText(endless, &cut), "\\x1b" + endless.substr(1));
  EXPECT_EQ(cut, "");
}

TEST(TerminalTextTest, WhereAPieceEndsChangesNothing) {
  const std::string text = "a\x1b[1;31mred\x1b[0m\x1b[2J Jörg\xc2\x9bx 🎉\x1b";
  const std::string kReset = "\x1b[0m";
  const size_t colour_begins = text.find("red"), colour_ends = text.find(kReset) + kReset.size();
  for (size_t at = 0; at <= text.size(); ++at) {
    std::string whole = InPieces(text, at);
    // The colour ends with each piece.
    if (at >= colour_begins && at < colour_ends) whole.erase(whole.find(kReset), kReset.size());
    EXPECT_EQ(whole, TerminalText(text)) << at;
  }
}

}  // namespace
}  // namespace dp::ctl

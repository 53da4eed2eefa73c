#include "base/data/text/pretoken.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/data/text/unicode_class.h"

namespace dp::data {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Pretokens(absl::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    words.emplace_back(text.substr(0, PretokenLength(text)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

TEST(PretokenTest, WordsTakeTheSpaceBeforeThem) {
  EXPECT_THAT(Pretokens("Hello world 42 !?"), ElementsAre("Hello", " world", " 42", " !?"));
  EXPECT_THAT(Pretokens("a1b"), ElementsAre("a", "1", "b"));
}

TEST(PretokenTest, ContractionsAreWordsOfTheirOwn) {
  EXPECT_THAT(Pretokens("I'm we're they'd it's can't I'll I've"),
              ElementsAre("I", "'m", " we", "'re", " they", "'d", " it", "'s", " can", "'t", " I",
                          "'ll", " I", "'ve"));
  EXPECT_THAT(Pretokens("I'M 'tis"), ElementsAre("I", "'", "M", " '", "tis"));
  EXPECT_THAT(Pretokens("'ran"), ElementsAre("'", "ran"));
}

TEST(PretokenTest, SpacesLeaveTheLastOneToTheWordBehind) {
  EXPECT_THAT(Pretokens("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(Pretokens("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(Pretokens("a \n b"), ElementsAre("a", " \n", " b"));
  EXPECT_THAT(Pretokens("a \nb"), ElementsAre("a", " ", "\n", "b"));
  EXPECT_THAT(Pretokens("a  "), ElementsAre("a", "  "));
  EXPECT_THAT(Pretokens(" "), ElementsAre(" "));
  EXPECT_THAT(Pretokens("a\u00a0\u3000b"), ElementsAre("a", "\u00a0", "\u3000", "b"));
}

TEST(PretokenTest, LettersAndNumbersAreUnicodes) {
  EXPECT_THAT(Pretokens("größe\u0301 漢字 ٣ ½ x²"),
              ElementsAre("größe", "\u0301", " 漢字", " ٣", " ½", " x", "²"));
}

TEST(PretokenTest, BytesThatAreNoUtf8AreNeitherLettersNorSpaces) {
  EXPECT_THAT(Pretokens("a\xff\xfe b\xc3"), ElementsAre("a", "\xff\xfe", " b", "\xc3"));
}

TEST(UnicodeClassTest, RangesBeginAndEndWhereUnicodeSays) {
  EXPECT_EQ(ClassOf('A'), CharClass::kLetter);
  EXPECT_EQ(ClassOf('@'), CharClass::kOther);
  EXPECT_EQ(ClassOf('['), CharClass::kOther);
  EXPECT_EQ(ClassOf(0xd7), CharClass::kOther);      // a multiplication sign between letters
  EXPECT_EQ(ClassOf(0x2fa1d), CharClass::kLetter);  // the last of a block
  EXPECT_EQ(ClassOf(0x2fa1e), CharClass::kOther);
  EXPECT_EQ(ClassOf(0x10ffff), CharClass::kOther);
  EXPECT_EQ(ClassOf(0x180e), CharClass::kOther);  // no space since Unicode 6.3
}

TEST(UnicodeClassTest, CharactersAreDecoded) {
  EXPECT_EQ(FirstCharacter("\u20acx").code, char32_t{0x20ac});
  EXPECT_EQ(FirstCharacter("\U0001f600").bytes, 4u);
  EXPECT_EQ(FirstCharacter("\U0001f600").code, char32_t{0x1f600});
  EXPECT_EQ(FirstCharacter("\x80").bytes, 1u);
}

}  // namespace
}  // namespace dp::data

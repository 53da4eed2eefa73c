#include "base/data/text/bpe_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/data/text/testing/bpe_files.h"

namespace dp::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BpeTokenizer With(const std::vector<std::string>& merges) {
  const BpeFiles files = BpeFilesWith(merges);
  auto tokenizer = BpeTokenizer::Parse(files.vocabulary, files.merges);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

// The tokens' texts, with a bar between them.
std::string Cut(const BpeTokenizer& tokenizer, const std::string& text) {
  std::string cut;
  for (const uint16_t token : tokenizer.Encode(text)) {
    absl::StrAppend(&cut, cut.empty() ? "" : "|", tokenizer.Decode({token}));
  }
  return cut;
}

TEST(BpeTokenizerTest, EarlierMergesComeFirst) {
  EXPECT_EQ(Cut(With({"b c", "a b"}), "abc"), "a|bc");
  EXPECT_EQ(Cut(With({"a b", "b c"}), "abc"), "ab|c");
  EXPECT_EQ(Cut(With({"l o", "lo w", "e r", "low er"}), "lower lowest"), "lower| |low|e|s|t");
}

TEST(BpeTokenizerTest, APairIsMergedLeftToRight) {
  EXPECT_EQ(Cut(With({"a a"}), "aaaaa"), "aa|aa|a");
  EXPECT_EQ(Cut(With({"a a", "aa a"}), "aaaaa"), "aa|aaa");
}

// A pair is merged wherever it stands before a pair that arises from it, even if that is earlier.
TEST(BpeTokenizerTest, AllOccurrencesOfAPairComeBeforeThePairsThatTheyMake) {
  const std::string vocabulary = BpeFilesWith({"a b", "ab ab", "ab c"}).vocabulary;
  const auto tokenizer = BpeTokenizer::Parse(vocabulary, "ab c\nab ab\na b\n");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(Cut(*tokenizer, "ababc"), "ab|abc");
}

TEST(BpeTokenizerTest, WordsAreNeverMergedWithEachOther) {
  EXPECT_EQ(Cut(With({"e Ġ", "Ġ t"}), "we two"), "w|e| t|w|o");
}

TEST(BpeTokenizerTest, NumbersAreThoseOfTheVocabulary) {
  const BpeTokenizer tokenizer = With({"h i"});
  EXPECT_EQ(tokenizer.vocabulary(), 257);
  EXPECT_THAT(tokenizer.Encode("hi!"), ElementsAre(256, BpeByteToken('!')));
  EXPECT_EQ(tokenizer.Decode({256, 9999, BpeByteToken('!')}), "hi!");
}

TEST(BpeTokenizerTest, AnyBytesComeBack) {
  const BpeTokenizer tokenizer =
      With({"Ġ t", "h e", "Ġt he", "Ċ Ċ", "Ã ¤", "a a", "aa aa", "1 2", "' s"});
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const std::vector<std::string> pieces = {"the",    " ",    "\n",   "ä",
                                           "\xff",   "aaaa", "12",   "'s",
                                           "\u3000", "漢",   "\xc3", std::string(1, '\0')};
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (uint32_t length = random() % 40; length > 0; --length) {
      text += random() % 4 == 0 ? std::string(1, static_cast<char>(random()))
                                : pieces[random() % pieces.size()];
    }
    ASSERT_EQ(tokenizer.Decode(tokenizer.Encode(text)), text) << absl::CHexEscape(text);
  }
}

// Quadratic work would take minutes.
TEST(BpeTokenizerTest, AWordOfAMegabyteIsNoTrouble) {
  const BpeTokenizer tokenizer = With({"a a", "aa aa", "aaaa aaaa"});
  EXPECT_EQ(tokenizer.Encode(std::string(1 << 20, 'a')).size(), size_t{1} << 17);
}

TEST(BpeTokenizerTest, FilesThatDoNotBelongTogetherAreRefused) {
  const std::string vocabulary = BpeFilesWith({}).vocabulary;
  const auto error = [](const std::string& json, const std::string& merges) {
    return std::string(BpeTokenizer::Parse(json, merges).status().message());
  };
  EXPECT_THAT(error(vocabulary, "#version: 0.2\na b\n"),
              HasSubstr("line 2: 'ab' is no token of the vocabulary"));
  EXPECT_THAT(error(vocabulary, "ab\n"), HasSubstr("line 1: expected two tokens"));
  EXPECT_THAT(error(R"({"a": 0})", ""), HasSubstr("byte 0 is no token"));
  EXPECT_THAT(error(R"({"▁the": 0})", ""), HasSubstr("'▁the' has a character that stands for no"));
  EXPECT_THAT(error(R"({"a": 0, "b": 0})", ""), HasSubstr("token 0 ('b') is there twice"));
  EXPECT_THAT(error(R"({"a": 65536})", ""), HasSubstr("token 65536 is too large"));
}

}  // namespace
}  // namespace dp::data

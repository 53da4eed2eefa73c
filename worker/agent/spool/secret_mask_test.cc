#include "worker/agent/spool/secret_mask.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

std::string Hidden(const std::vector<std::string>& values, std::string text,
                   SecretMask::Cut cut = {}) {
  SecretMask(values).Hide(&text, cut);
  return text;
}

TEST(SecretMaskTest, EachByteOfASecretBecomesAStar) {
  EXPECT_EQ(Hidden({"hf_abc"}, "token=hf_abc; hf_abc hf_ab\n"), "token=******; ****** hf_ab\n");
  EXPECT_EQ(Hidden({"hf_abc"}, "hf_abc"), "******");
  EXPECT_EQ(Hidden({}, "hf_abc"), "hf_abc");
  EXPECT_EQ(Hidden({"hf_abc"}, ""), "");
}

TEST(SecretMaskTest, TheTextOfTheSpoolGivesTheSameValues) {
  const std::vector<std::string> values = {"hf_abc", "", "two\nlines", std::string("\0a", 2)};
  EXPECT_EQ(SecretsInText(SecretsText(values)), values);
  for (const char* damaged : {"", "6", "6\nhf_ab", "x\nhf_abc", "-1\nhf_abc", "6\nhf_abc7"}) {
    EXPECT_EQ(SecretsInText(damaged), std::nullopt) << damaged;
  }
}

TEST(SecretMaskTest, SecretsMayOverlapAndContainEachOther) {
  EXPECT_EQ(Hidden({"abcd", "cdef", "abcdefgh"}, "abcdef abcdefgh xcdef abcdab"),
            "****** ******** x**** ****ab");
  EXPECT_EQ(Hidden({"aaaa"}, "aaa aaaa aaaaaaa"), "aaa **** *******");
}

TEST(SecretMaskTest, BytesOfAnyKindAreHidden) {
  EXPECT_EQ(Hidden({"\xff\xfe\x80\x81"}, "a\xff\xfe\x80\x81z"), "a****z");
  EXPECT_EQ(Hidden({"geheim\xc3\xbc"}, "x geheim\xc3\xbc"), "x ********");
}

TEST(SecretMaskTest, EachLineOfAValueIsHiddenWithoutTheBlanksAroundIt) {
  const std::string value = "-----BEGIN-----\r\n  Zm9v YmFy\t\nab=\n-----END-----";
  EXPECT_EQ(Hidden({value}, value), "***************\r\n  *********\t\nab=\n*************");
  EXPECT_EQ(Hidden({value}, "key Zm9v YmFy;"), "key *********;");
  EXPECT_EQ(Hidden({"abcd\refgh"}, "efgh abcd"), "**** ****");
}

TEST(SecretMaskTest, ALineBelowTheMinimumIsNotHidden) {
  EXPECT_EQ(Hidden({"abc\nabcd"}, "abc abcd"), "abc ****");
}

TEST(SecretMaskTest, ALongLineIsHiddenWhole) {
  std::string value;
  for (int i = 0; value.size() < 5000; ++i) absl::StrAppend(&value, i, ",");
  for (const size_t size : {value.size(), size_t{2050}, size_t{1026}, size_t{1024}}) {
    value.resize(size);
    EXPECT_EQ(Hidden({value}, "<" + value + ">"), "<" + std::string(size, '*') + ">");
  }
  EXPECT_EQ(SecretMask({value + value}).reach(), 1023u);
}

TEST(SecretMaskTest, WhereATextWasCutThePartOfASecretIsHidden) {
  EXPECT_EQ(Hidden({"hf_abcdef"}, "abcdef! bcdef", {.before = true}), "******! bcdef");
  EXPECT_EQ(Hidden({"hf_abcdef"}, "abcdef!"), "abcdef!");
  EXPECT_EQ(Hidden({"hf_abcdef"}, "def!", {.before = true}), "def!");  // less than the minimum
  EXPECT_EQ(Hidden({"hf_abcdef"}, "hf_a hf_abc", {.after = true}), "hf_a ******");
  EXPECT_EQ(Hidden({"hf_abcdef"}, "hf_a hf_abc"), "hf_a hf_abc");
}

TEST(SecretMaskTest, ABeginningOfASecretAtTheEndIsOpen) {
  const SecretMask mask({"hf_abcdef", "f_ab", "f_abx"});
  EXPECT_EQ(mask.OpenBytes("token hf_abc"), 6u);
  EXPECT_EQ(mask.OpenBytes("token h"), 1u);
  EXPECT_EQ(mask.OpenBytes("f_ab"), 4u);  // f_abx may follow
  EXPECT_EQ(mask.OpenBytes("hf_abcdef"), 1u);
  EXPECT_EQ(mask.OpenBytes("token\n"), 0u);
  EXPECT_EQ(mask.OpenBytes(""), 0u);
  EXPECT_EQ(SecretMask().OpenBytes("token"), 0u);
}

TEST(SecretMaskTest, WithoutTheValuesAllIsHidden) {
  std::string text = "loss 1.0\nhf_abc\r";
  SecretMask::OfEverything().Hide(&text, {});
  EXPECT_EQ(text, "********\n******\r");
}

// The definition.
std::string NaivelyHidden(const std::vector<std::string>& lines, const std::string& text) {
  std::string hidden = text;
  for (const std::string& line : lines) {
    for (size_t at = text.find(line); at != text.npos; at = text.find(line, at + 1)) {
      hidden.replace(at, line.size(), line.size(), '*');
    }
  }
  return hidden;
}

// Few letters make secrets that overlap, repeat and begin like each other.
class RandomSecretMaskTest : public testing::Test {
 protected:
  size_t Below(size_t bound) { return NextRandom(random_) % bound; }
  std::string Letters(size_t bytes) {
    std::string letters(bytes, 'a');
    for (char& letter : letters) letter = static_cast<char>('a' + Below(2));
    return letters;
  }
  std::vector<std::string> Lines() {
    std::vector<std::string> lines;
    for (size_t i = 0; i < 1 + Below(6); ++i) lines.push_back(Letters(4 + Below(9)));
    return lines;
  }

  uint64_t random_ = 0;
};

TEST_F(RandomSecretMaskTest, HidesWhatTheDefinitionHides) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    random_ = seed;
    const std::vector<std::string> lines = Lines();
    const std::string text = Letters(Below(80));
    ASSERT_EQ(Hidden({absl::StrJoin(lines, "\n")}, text), NaivelyHidden(lines, text))
        << "seed " << seed << ": " << absl::StrJoin(lines, " ") << " in " << text;
  }
}

// Sends a stream in pieces, as a SpoolFile does: an open end waits, and the bytes before are known.
TEST_F(RandomSecretMaskTest, PiecesOfAStreamHideTheSame) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    random_ = seed;
    const std::vector<std::string> lines = Lines();
    const SecretMask mask({absl::StrJoin(lines, "\n")});
    const std::string text = Letters(1 + Below(80));
    std::string sent;
    for (size_t known = 0; known < text.size();) {
      known = std::min(text.size(), known + 1 + Below(7));
      const size_t before = std::min(sent.size(), mask.reach());
      std::string window = text.substr(sent.size() - before, known - sent.size() + before);
      const size_t open = known < text.size() ? mask.OpenBytes(window) : 0;
      mask.Hide(&window, {});
      window.resize(window.size() - std::min(open, window.size() - before));
      sent += window.substr(before);
    }
    ASSERT_EQ(sent, NaivelyHidden(lines, text))
        << "seed " << seed << ": " << absl::StrJoin(lines, " ") << " in " << text;
  }
}

}  // namespace
}  // namespace dp::worker

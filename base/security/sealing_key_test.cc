#include "base/security/sealing_key.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::security {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPlace[] = "secret/request 1/TOKEN";

TEST(SealingKeyTest, OpensWhatItHasSealed) {
  const SealingKey key = SealingKey::Make();
  for (const std::string& value :
       {std::string(), std::string("hf_abcdef"), std::string(65536, '\0'), std::string("\xff\n")}) {
    const auto opened = key.Open(key.Seal(value, kPlace), kPlace);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(*opened, value);
  }
}

TEST(SealingKeyTest, ASealedValueShowsNothingOfTheValue) {
  const SealingKey key = SealingKey::Make();
  std::set<std::string> sealed;
  for (int i = 0; i < 100; ++i) sealed.insert(key.Seal("hf_abcdef", kPlace));
  EXPECT_EQ(sealed.size(), 100);  // equal values differ
  for (const std::string& each : sealed) EXPECT_THAT(each, Not(HasSubstr("hf_abcdef")));
}

TEST(SealingKeyTest, AnotherKeySaysSo) {
  const std::string sealed = SealingKey::Make().Seal("hf_abcdef", kPlace);
  const auto opened = SealingKey::Make().Open(sealed, kPlace);
  EXPECT_TRUE(absl::IsFailedPrecondition(opened.status())) << opened.status();
}

TEST(SealingKeyTest, AValueForAnotherPlaceIsNotOpened) {
  const SealingKey key = SealingKey::Make();
  const std::string sealed = key.Seal("hf_abcdef", kPlace);
  for (const std::string& place :
       {std::string(), std::string("secret/request 1/TOKE"), absl::StrCat(kPlace, "S"),
        std::string("secret/request 2/TOKEN")}) {
    EXPECT_TRUE(absl::IsDataLoss(key.Open(sealed, place).status())) << place;
  }
}

TEST(SealingKeyTest, EachFlippedBitIsNoticed) {
  const SealingKey key = SealingKey::Make();
  const std::string sealed = key.Seal("hf_abcdef", kPlace);
  for (size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    std::string flipped = sealed;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(key.Open(flipped, kPlace).ok()) << "bit " << bit;
  }
}

TEST(SealingKeyTest, EachTruncationIsNoticed) {
  const SealingKey key = SealingKey::Make();
  const std::string sealed = key.Seal("hf_abcdef", kPlace);
  for (size_t size = 0; size < sealed.size(); ++size) {
    EXPECT_FALSE(key.Open(sealed.substr(0, size), kPlace).ok()) << size;
  }
  EXPECT_FALSE(key.Open(sealed + "x", kPlace).ok());
}

TEST(SealingKeyTest, AKeyIsReadBack) {
  const SealingKey key = SealingKey::Make();
  const auto read = SealingKey::From(key.bytes());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->Open(key.Seal("hf_abcdef", kPlace), kPlace).value_or(""), "hf_abcdef");
  EXPECT_NE(SealingKey::Make().bytes(), key.bytes());
  EXPECT_THAT(SealingKey::From("short").status().message(), HasSubstr("32 bytes, not 5"));
  EXPECT_THAT(SealingKey::From(std::string(32, '\0')).status().message(), HasSubstr("all zeros"));
}

}  // namespace
}  // namespace dp::security

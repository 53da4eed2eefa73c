#include "base/security/token.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::security {
namespace {

using testing::HasSubstr;

const absl::Time kIssuedAt = absl::FromUnixSeconds(1'800'000'000);
const std::string kFingerprint(64, 'a');

bool Refused(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnauthenticated;
}

class TokenTest : public testing::Test {
 protected:
  std::string AJoinToken(absl::Time expires_at) const {
    return key_.JoinToken({.expires_at = expires_at,
                           .fingerprint = kFingerprint,
                           .identity = {Role::kUser, "a/b"},
                           .uses = 3});
  }

  const TokenKey key_ = TokenKey::Make();
  const RankClaims rank_{{JobId(7), Generation(2), 31}, kIssuedAt + absl::Nanoseconds(5)};
};

TEST_F(TokenTest, ARanksTokenSaysWhichRankItIs) {
  const auto claims = key_.CheckRank(key_.Token(rank_));
  ASSERT_TRUE(claims.ok()) << claims.status();
  EXPECT_EQ(*claims, rank_);
}

TEST_F(TokenTest, AnotherKeyKnowsNoneOfThem) {
  const TokenKey other = TokenKey::Make();
  EXPECT_TRUE(Refused(other.CheckRank(key_.Token(rank_)).status()));
  const TokenKey same = *TokenKey::From(key_.bytes());
  EXPECT_TRUE(same.CheckRank(key_.Token(rank_)).ok());
  EXPECT_FALSE(TokenKey::From("short").ok());
  EXPECT_FALSE(TokenKey::From(std::string(32, '\0')).ok());  // anybody could forge tokens
}

TEST_F(TokenTest, NoByteOfATokenCanBeChanged) {
  const std::string token = key_.Token(rank_);
  for (size_t i = 0; i < token.size(); ++i) {
    std::string forged = token;
    forged[i] = forged[i] == 'A' ? 'B' : 'A';
    EXPECT_TRUE(Refused(key_.CheckRank(forged).status())) << i;
  }
  for (const std::string& wrong : {std::string(), token.substr(1), token + "A", token + ".A"}) {
    EXPECT_TRUE(Refused(key_.CheckRank(wrong).status())) << wrong;
  }
}

TEST_F(TokenTest, ATokenForOnePurposeIsNoneForAnother) {
  EXPECT_TRUE(Refused(key_.CheckRank(AJoinToken(kIssuedAt)).status()));
  EXPECT_TRUE(Refused(key_.CheckJoin(key_.Token(rank_), kIssuedAt).status()));
  EXPECT_FALSE(ReadJoinToken(key_.Token(rank_)).ok());
  const std::string renamed = "dpj1" + key_.Token(rank_).substr(4);
  EXPECT_TRUE(Refused(key_.CheckJoin(renamed, kIssuedAt).status()));
}

TEST_F(TokenTest, AJoinTokenHoldsForItsTimeAndTellsWhomToTrust) {
  const std::string token = AJoinToken(kIssuedAt + absl::Minutes(10));
  const auto read = ReadJoinToken(token);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->fingerprint, kFingerprint);
  EXPECT_EQ(read->identity, (Identity{Role::kUser, "a/b"}));
  EXPECT_EQ(read->uses, 3);
  EXPECT_EQ(*key_.CheckJoin(token, kIssuedAt), *read);
  const absl::Status late = key_.CheckJoin(token, kIssuedAt + absl::Minutes(10)).status();
  EXPECT_TRUE(Refused(late));
  EXPECT_THAT(late.message(), HasSubstr("expired"));
  const std::string another = AJoinToken(kIssuedAt + absl::Minutes(10));
  EXPECT_NE(ReadJoinToken(another)->id, read->id);
}

}  // namespace
}  // namespace dp::security

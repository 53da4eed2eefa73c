// Tokens that somebody made up or changed. Only a token that this key has made counts, byte for
// byte; its claims are those that it was made with. Whoever has no key may still read a join token.
//
// The first byte chooses how the input is used: as a whole token, or as the claims of a token whose
// signature is right.

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/security/token.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::token {
namespace {

using namespace dp::security;

const absl::Time kNow = absl::FromUnixSeconds(1'764'228'000);

const TokenKey& Key() {
  static const TokenKey& key = *new TokenKey(*TokenKey::From(std::string(TokenKey::kBytes, 'k')));
  return key;
}
const TokenKey& OtherKey() {
  static const TokenKey& key = *new TokenKey(*TokenKey::From(std::string(TokenKey::kBytes, 'o')));
  return key;
}

RankClaims Rank() { return {{JobId(7), Generation(3), 1}, kNow}; }

JoinClaims Join(const std::string& name) {
  return {.made_at = kNow,
          .expires_at = kNow + absl::Hours(1),
          .fingerprint = std::string(64, 'a'),
          .identity = {Role::kUser, name},
          .uses = 1};
}

// A token of this text. No other token may count.
void CheckForged(absl::string_view text) {
  static const std::string& rank = *new std::string(Key().Token(Rank()));
  const auto claims = Key().CheckRank(text);
  DP_CHECK(claims.ok() == (text == rank));
  if (claims.ok()) DP_CHECK(*claims == Rank() && !OtherKey().CheckRank(text).ok());
  // Each join token that Seeds has made is another.
  if (auto join = Key().CheckJoin(text, kNow); join.ok()) {
    join->id.clear();
    DP_CHECK(*join == Join("ann"));
  }
  const auto read = ReadJoinToken(text);
  if (read.ok()) DP_CHECK(!read->id.empty() && read->fingerprint.size() == 64);
}

// Any name in a genuine token comes back, and the token has an end.
void CheckGenuine(absl::string_view name) {
  const JoinClaims wanted = Join(std::string(name));
  const std::string token = Key().JoinToken(wanted);
  auto claims = Key().CheckJoin(token, kNow);
  DP_CHECK(claims.ok());
  const auto read = ReadJoinToken(token);
  DP_CHECK(read.ok() && *read == *claims);
  DP_CHECK(!claims->id.empty());
  claims->id.clear();
  DP_CHECK(*claims == wanted);
  DP_CHECK(!Key().CheckJoin(token, wanted.expires_at).ok());
  DP_CHECK(!OtherKey().CheckJoin(token, kNow).ok());
  DP_CHECK(!Key().CheckRank(token).ok());
}

// Claims in the form of a token for joining, which everybody may read.
void CheckClaims(absl::string_view claims) {
  const std::string token = absl::StrCat("dpj1.", absl::WebSafeBase64Escape(claims), ".AAAA");
  const auto read = ReadJoinToken(token);
  if (read.ok()) (void)absl::FormatTime(read->expires_at);
  DP_CHECK(!Key().CheckJoin(token, kNow).ok());
}

constexpr void (*kUses[])(absl::string_view) = {CheckForged, CheckGenuine, CheckClaims};

}  // namespace

void Run(absl::string_view input) { kUses[TakeChoice(&input) % std::size(kUses)](input); }

std::vector<std::string> Seeds() {
  const std::string fingerprint(64, 'a');
  return {Chosen(0, Key().Token(Rank())),
          Chosen(0, Key().JoinToken(Join("ann"))),
          Chosen(0, OtherKey().Token(Rank())),
          Chosen(1, "ann"),
          Chosen(1, "a/b/c"),
          Chosen(2, absl::StrCat("id/1764228000/1764231600/", fingerprint, "/0/worker/")),
          Chosen(2, absl::StrCat("id/1764228000/1764231600/", fingerprint, "/1/user/ann"))};
}

}  // namespace dp::fuzz::token

#include "base/security/token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status.h"

namespace dp::security {
namespace {

// The first word of a token, and a part of what is signed: a token for one purpose is none for
// another.
constexpr absl::string_view kRank = "dpr1";
constexpr absl::string_view kJoin = "dpj1";
constexpr size_t kIdBytes = 16;
constexpr size_t kFingerprintDigits = 64;

template <size_t kSize>
void Randomize(std::array<unsigned char, kSize>& bytes) {
  DP_CHECK(RAND_bytes(bytes.data(), kSize) == 1);
}

std::string Mac(const std::array<unsigned char, TokenKey::kBytes>& key, absl::string_view purpose,
                absl::string_view claims) {
  const std::string text = absl::StrCat(purpose, ".", claims);
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  DP_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac,
                &size) != nullptr);
  return {reinterpret_cast<const char*>(mac), size};
}

// A token is PURPOSE.CLAIMS.MAC, the last two in base64url.
struct Parts {
  std::string purpose;
  std::string claims;
};
absl::StatusOr<Parts> Split(absl::string_view token) {
  const std::vector<absl::string_view> words = absl::StrSplit(token, '.');
  Parts parts;
  if (words.size() == 3 && absl::WebSafeBase64Unescape(words[1], &parts.claims)) {
    parts.purpose = std::string(words[0]);
    return parts;
  }
  return absl::InvalidArgumentError("it has not the form of a token");
}

std::string ToClaims(const RankClaims& claims) {
  const RankKey& rank = claims.rank;
  return absl::StrCat(rank.job.value(), "/", rank.generation.value(), "/", rank.rank, "/",
                      absl::ToUnixNanos(claims.job_submitted_at));
}

std::string ToClaims(const JoinClaims& claims) {
  return absl::StrCat(claims.id, "/", absl::ToUnixSeconds(claims.made_at), "/",
                      absl::ToUnixSeconds(claims.expires_at), "/", claims.fingerprint, "/",
                      claims.uses, "/", NameOf(claims.identity.role), "/", claims.identity.name);
}

absl::StatusOr<RankClaims> ToRank(const std::string& text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, '/');
  uint64_t job = 0, generation = 0;
  int rank = 0;
  int64_t submitted_at = 0;
  if (words.size() == 4 && absl::SimpleAtoi(words[0], &job) &&
      absl::SimpleAtoi(words[1], &generation) && absl::SimpleAtoi(words[2], &rank) &&
      absl::SimpleAtoi(words[3], &submitted_at)) {
    return RankClaims{{JobId(job), Generation(generation), rank},
                      absl::FromUnixNanos(submitted_at)};
  }
  return absl::InvalidArgumentError("it names no rank");
}

absl::StatusOr<JoinClaims> ToJoin(const std::string& text) {
  // A name may contain slashes.
  const std::vector<std::string> words = absl::StrSplit(text, absl::MaxSplits('/', 6));
  int64_t made_at = 0, expires_at = 0;
  JoinClaims claims;
  if (words.size() == 7 && !words[0].empty() && absl::SimpleAtoi(words[1], &made_at) &&
      absl::SimpleAtoi(words[2], &expires_at) && words[3].size() == kFingerprintDigits &&
      absl::SimpleAtoi(words[4], &claims.uses)) {
    claims.id = words[0];
    claims.made_at = absl::FromUnixSeconds(made_at);
    claims.expires_at = absl::FromUnixSeconds(expires_at);
    claims.fingerprint = words[3];
    DP_ASSIGN_OR_RETURN(claims.identity.role, RoleOf(words[5]));
    claims.identity.name = words[6];
    return claims;
  }
  return absl::InvalidArgumentError("it names no authority");
}

}  // namespace

absl::StatusOr<JoinClaims> ReadJoinToken(absl::string_view token) {
  DP_ASSIGN_OR_RETURN(const Parts parts, Split(token));
  if (parts.purpose == kJoin) return ToJoin(parts.claims);
  return absl::InvalidArgumentError("it is a token for another purpose");
}

TokenKey TokenKey::Make() {
  TokenKey key;
  Randomize(key.bytes_);
  return key;
}

absl::StatusOr<TokenKey> TokenKey::From(absl::string_view bytes) {
  if (bytes.size() != kBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a key of tokens has ", kBytes, " bytes, not ", bytes.size()));
  }
  if (bytes == std::string(kBytes, '\0')) {
    return absl::InvalidArgumentError(
        "a key of tokens cannot be all zeros; the file may have been restored with holes");
  }
  TokenKey key;
  std::copy(bytes.begin(), bytes.end(), key.bytes_.begin());
  return key;
}

std::string TokenKey::Token(const RankClaims& claims) const {
  return Sign(kRank, ToClaims(claims));
}

std::string TokenKey::JoinToken(JoinClaims claims) const {
  DP_CHECK(claims.fingerprint.size() == kFingerprintDigits);
  std::array<unsigned char, kIdBytes> id;
  Randomize(id);
  claims.id = absl::BytesToHexString(std::string(id.begin(), id.end()));
  return Sign(kJoin, ToClaims(claims));
}

absl::StatusOr<RankClaims> TokenKey::CheckRank(absl::string_view token) const {
  DP_ASSIGN_OR_RETURN(const std::string claims, Open(kRank, token));
  return ToRank(claims);
}

absl::StatusOr<JoinClaims> TokenKey::CheckJoin(absl::string_view token, absl::Time now) const {
  DP_ASSIGN_OR_RETURN(const std::string text, Open(kJoin, token));
  DP_ASSIGN_OR_RETURN(JoinClaims claims, ToJoin(text));
  if (now < claims.expires_at) return claims;
  return absl::UnauthenticatedError(absl::StrCat("the token expired at ",
                                                 absl::FormatTime(claims.expires_at),
                                                 "; ask an administrator for another"));
}

std::string TokenKey::Sign(absl::string_view purpose, absl::string_view claims) const {
  return absl::StrCat(purpose, ".", absl::WebSafeBase64Escape(claims), ".",
                      absl::WebSafeBase64Escape(Mac(bytes_, purpose, claims)));
}

absl::StatusOr<std::string> TokenKey::Open(absl::string_view purpose,
                                           absl::string_view token) const {
  absl::StatusOr<Parts> parts = Split(token);
  if (parts.ok()) {
    // The whole text, because base64 has several forms of some bytes. The comparison takes equally
    // long wherever the two differ.
    const std::string genuine = Sign(purpose, parts->claims);
    if (token.size() == genuine.size() &&
        CRYPTO_memcmp(token.data(), genuine.data(), token.size()) == 0) {
      return std::move(parts->claims);
    }
  }
  return absl::UnauthenticatedError("the token was not given out by this coordinator");
}

}  // namespace dp::security

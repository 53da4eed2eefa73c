#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/rank.h"
#include "base/security/identity.h"

// Tokens that a coordinator gives out and later recognizes, without keeping a list of them: claims
// in clear, and an HMAC-SHA256 of them (RFC 2104). Whoever has a token may use it, so it travels
// only over TLS and lies only in files of mode 0600.

namespace dp::security {

// The metadata of a call that holds its token.
inline constexpr char kTokenMetadata[] = "dp-token";

// The claims of a rank: its place in one generation of one job.
struct RankClaims {
  RankKey rank;
  absl::Time job_submitted_at;  // another job may get the number after a loss of the journal

  bool operator==(const RankClaims&) const = default;
};

// The claims of a worker or user who has no certificate yet.
struct JoinClaims {
  std::string id = {};                     // by which a coordinator knows a token that was used
  absl::Time made_at = absl::UnixEpoch();  // to the second, as the next
  absl::Time expires_at;
  std::string fingerprint;  // of the authority that its holder is to trust
  Identity identity;        // what the certificate will say; a worker without name chooses one
  int uses = 0;             // how many certificates it is good for; 0: any number

  bool operator==(const JoinClaims&) const = default;
};

// Reads a join token without the key: its holder does not know whether it is genuine, but whom to
// trust. Errors: InvalidArgument it is no join token.
absl::StatusOr<JoinClaims> ReadJoinToken(absl::string_view token);

// Makes and checks tokens. Thread-safe.
class TokenKey {
 public:
  static constexpr size_t kBytes = 32;

  // A new random key.
  static TokenKey Make();
  // `bytes` as bytes() has returned them. Errors: InvalidArgument of another length.
  static absl::StatusOr<TokenKey> From(absl::string_view bytes);
  // Secret.
  std::string bytes() const { return {bytes_.begin(), bytes_.end()}; }

  std::string Token(const RankClaims& claims) const;
  // With a random id in place of that of the claims.
  std::string JoinToken(JoinClaims claims) const;

  // Errors: Unauthenticated it was not made with this key, or for another purpose.
  absl::StatusOr<RankClaims> CheckRank(absl::string_view token) const;
  // Errors: Unauthenticated as above, or it has expired.
  absl::StatusOr<JoinClaims> CheckJoin(absl::string_view token, absl::Time now) const;

 private:
  TokenKey() = default;
  std::string Sign(absl::string_view purpose, absl::string_view claims) const;
  // The claims of a genuine token. Errors: Unauthenticated.
  absl::StatusOr<std::string> Open(absl::string_view purpose, absl::string_view token) const;

  std::array<unsigned char, kBytes> bytes_{};
};

}  // namespace dp::security

#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/security/identity.h"
#include "base/security/token.h"

namespace dp::server {

// The maker of a call, as far as its connection and its token prove it.
struct Caller {
  enum class Kind {
    kInsecure,     // calls in plain text, where --insecure allows that; may do everything
    kStranger,     // proves nothing
    kCertificate,  // a person or worker, with `identity`
    kRank,         // with `rank`
  };

  Kind kind = Kind::kStranger;
  security::Identity identity = {};
  absl::Time certified_at = absl::InfinitePast();  // when the certificate was made
  absl::Time expires_at = absl::InfiniteFuture();  // the certificate
  // The certificate is no one of dp's: its holder has the role that was granted, and no other.
  bool role_must_be_granted = false;
  security::RankClaims rank = {};
  std::string peer = {};  // the address, as gRPC writes it
  // True once the certificate is revoked, and never counts again; shared by all calls with it.
  std::shared_ptr<std::atomic<bool>> revoked = {};

  bool is_person() const {
    using security::Role;
    return kind == Kind::kCertificate && identity.role != Role::kWorker &&
           identity.role != Role::kCoordinator;
  }
};

// Unauthenticated: the caller's certificate has expired. Names the remedy.
absl::Status CertificateExpired(const Caller& caller);

// As in messages and events: "user ann", "rank 3 of job 7", "a stranger". Whoever has a certificate
// without a role is "person ann@example.org", whatever role was granted.
std::string ToString(const Caller& caller);

}  // namespace dp::server

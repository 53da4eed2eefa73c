#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/security/certificate_authority.h"
#include "base/security/identity.h"
#include "base/security/sealing_key.h"
#include "base/security/token.h"

namespace dp::server {

// The name of the administrator whose credential the coordinator makes. It stays one, so that
// whoever can start the coordinator is never locked out.
inline constexpr char kLocalAdmin[] = "admin";

// A certificate as its holder needs it, in PEM.
struct IssuedCertificate {
  std::string chain;        // the certificate, then that of the authority
  std::string authorities;  // whom the holder is to trust
};

// Signs the certificates of a cluster, makes its tokens and seals the secrets of its jobs.
// Thread-safe.
class Authority {
 public:
  // How long certificates last. Programs renew theirs after half of that time.
  static constexpr absl::Duration kOfWorkers = absl::Hours(24 * 7);
  static constexpr absl::Duration kOfPeople = absl::Hours(24 * 30);
  static constexpr absl::Duration kOfCoordinators = absl::Hours(24 * 90);
  // How long a join token may last, and lasts if nobody says.
  static constexpr absl::Duration kTokenMax = absl::Hours(24 * 7);
  static constexpr absl::Duration kTokenDefault = absl::Hours(1);

  Authority(security::CertificateAuthority authority, security::TokenKey tokens,
            security::SealingKey secrets)
      : authority_(std::move(authority)),
        tokens_(std::move(tokens)),
        secrets_(std::move(secrets)) {}

  // A certificate for the key of the request. Errors: those of CertificateAuthority::Issue.
  absl::StatusOr<IssuedCertificate> Issue(const std::string& signing_request,
                                          const security::Identity& identity, absl::Time now) const;
  // For a coordinator that can be reached at these names and addresses.
  absl::StatusOr<IssuedCertificate> IssueToCoordinator(const std::string& signing_request,
                                                       const std::vector<std::string>& hosts,
                                                       absl::Time now) const;
  // `uses` is 0 for any number.
  std::string JoinToken(const security::Identity& identity, int uses, absl::Time now,
                        absl::Duration valid_for) const;

  const security::CertificateAuthority& certificates() const { return authority_; }
  const security::TokenKey& tokens() const { return tokens_; }
  const security::SealingKey& secrets() const { return secrets_; }

 private:
  absl::StatusOr<IssuedCertificate> Sign(const std::string& signing_request,
                                         const security::Grant& grant, absl::Time now) const;

  const security::CertificateAuthority authority_;
  const security::TokenKey tokens_;
  const security::SealingKey secrets_;
};

}  // namespace dp::server

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/security/certificate.h"

namespace dp::security {

// The contents of a certificate that an authority vouches for.
struct Grant {
  Identity identity;
  // DNS names and numeric addresses at which a server may be reached; empty for clients.
  std::vector<std::string> hosts = {};
  absl::Duration lifetime;
};

// Signs the certificates of a cluster. Every part of the cluster knows the authority's own
// certificate, and trusts whom it has signed. Thread-safe.
class CertificateAuthority {
 public:
  // How long an authority's own certificate lasts.
  static constexpr absl::Duration kLifetime = absl::Hours(24 * 365 * 10);
  // A certificate begins to hold so long before it is made, since clocks differ.
  static constexpr absl::Duration kClockSkew = absl::Minutes(5);

  // A new one, with a key of its own.
  static CertificateAuthority Make(absl::Time now);
  // Errors: InvalidArgument not in PEM; the two do not belong together; it may sign nothing.
  static absl::StatusOr<CertificateAuthority> FromPem(const std::string& certificate,
                                                      const std::string& key);

  const Certificate& certificate() const { return certificate_; }
  const KeyPair& key() const { return key_; }

  // A certificate for the key of the request (KeyPair::SigningRequest); nothing else of the request
  // counts. It ends no later than the authority's own.
  // Errors: InvalidArgument the request is malformed, too long, or not signed by its own key.
  absl::StatusOr<Certificate> Issue(const std::string& signing_request, const Grant& grant,
                                    absl::Time now) const;

 private:
  CertificateAuthority(Certificate certificate, KeyPair key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}

  Certificate certificate_;
  KeyPair key_;
};

}  // namespace dp::security

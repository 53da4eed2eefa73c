#pragma once

#include <openssl/x509.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/mutex.h"
#include "base/security/certificate.h"

namespace dp::security {

// The certificates that revocation lists name, each as a number of its issuer and serial. gRPC
// looks for the first certificate of a chain only, and only in the latest list of its authority.
// Thread-safe.
class Revocations {
 public:
  using Keys = std::unordered_set<size_t>;
  // The certificates that a list names.
  static void AddAll(X509_CRL* list, Keys& keys);

  void Set(Keys keys) DP_EXCLUDES(mu_);
  bool Revoke(const Certificate& certificate) const DP_EXCLUDES(mu_);
  // Whether any certificate of a chain in PEM is revoked. A chain that cannot be read is not.
  bool RevokeAnyOf(std::string_view chain) const DP_EXCLUDES(mu_);

 private:
  mutable Mutex mu_;
  Keys keys_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::security

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/security/token.h"
#include "grpcpp/grpcpp.h"
#include "server/access/admission.h"
#include "server/access/caller.h"
#include "server/access/refusals.h"
#include "server/driver/driver.h"

namespace dp::server {

// The certificate that the caller has shown, in PEM; empty: none.
std::string CertificateOf(const grpc::CallbackServerContext& context);

// Finds out who makes a call, and lets it reach the driver only as that caller may. The services
// know the driver by admissions alone. The driver must outlive it. Thread-safe.
class Gate {
 public:
  struct Options {
    // Checks the tokens of ranks. Absent: the server does not use TLS, and has no tokens.
    std::optional<security::TokenKey> token_key = {};
    // Callers in plain text may do everything (--insecure).
    bool plain_text = false;
  };

  Gate(Driver& driver, Options options);

  // Never fails: an admission of a caller who may not make the call gives the error.
  Admission Admit(const grpc::CallbackServerContext& context, Rpc rpc, AccessObject object = {});

  bool plain_text() const { return options_.plain_text; }
  const std::optional<security::TokenKey>& token_key() const { return options_.token_key; }
  Refusals& refusals() { return refusals_; }
  const core::PlacementPolicy& placement() const { return driver_.placement(); }

 private:
  // Certificates of so many connections stay parsed; each takes about 2 kB.
  static constexpr size_t kParsedMax = 20'000;

  // Errors: Unauthenticated the certificate or token does not count. `caller` is set all the same,
  // as far as it is known.
  absl::Status Identify(const grpc::CallbackServerContext& context, Caller& caller)
      DP_EXCLUDES(mu_);
  absl::Status IdentifyByCertificate(const std::string& pem, Caller& caller) DP_EXCLUDES(mu_);

  Driver& driver_;
  const Options options_;
  Refusals refusals_;

  Mutex mu_;
  absl::flat_hash_map<std::string, Caller> parsed_ DP_GUARDED_BY(mu_);  // by certificate in PEM
};

}  // namespace dp::server

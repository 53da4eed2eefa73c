#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/security/credential.h"
#include "base/security/token.h"
#include "client/connection.h"

namespace dp::client {

// An asker for a certificate. People need neither field: their token names them.
struct Applicant {
  std::string worker = {};  // the name of a worker; empty: the coordinator names it
  std::string host = {};    // the worker's, after which it is then named
};

// The certificate of a cluster's authority, in PEM, as the coordinator at `address` shows it.
// Trusts nobody: the fingerprint says whether it is the right one. Blocks.
// Errors: InvalidArgument the address; Unavailable nobody answers there, or not with TLS.
// Unauthenticated another cluster's coordinator answers, or its certificate is not valid now.
absl::StatusOr<std::string> FetchAuthority(const std::string& address,
                                           const std::string& fingerprint, absl::Duration timeout);

// The claims of a join token. The error shows only the beginning of the text.
// Errors: InvalidArgument it is no join token.
absl::StatusOr<security::JoinClaims> ClaimsOf(const std::string& token);

// Exchanges a join token for a credential with a new key. One attempt; blocks.
// Errors: those of ClaimsOf, FetchAuthority and Access.Enroll.
absl::StatusOr<security::Credential> EnrolByToken(const std::string& address,
                                                  const std::string& token,
                                                  const Applicant& applicant,
                                                  absl::Duration timeout);

// The same for an administrator, who needs no token, over a connection of theirs.
// Errors: those of Access.Enroll.
absl::StatusOr<security::Credential> EnrolByAdministrator(Connection& connection,
                                                          const Applicant& applicant,
                                                          absl::Duration timeout);

// The credential with a later certificate of the same key. `connection` uses the credential.
// Errors: those of Access.Renew.
absl::StatusOr<security::Credential> Renew(Connection& connection,
                                           const security::Credential& credential,
                                           absl::Duration timeout);

// Whether less than half of the certificate's life is left.
// Errors: InvalidArgument it is no certificate.
absl::StatusOr<bool> RenewalDue(const security::Credential& credential, absl::Time now);

}  // namespace dp::client

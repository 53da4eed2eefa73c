#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/security/credential.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace dp::client {

class CertificateCopies;

// How a program proves itself to a coordinator, and how it knows that it talks to the right one. A
// value.
class Credentials {
 public:
  // Calls in plain text that prove nothing, for coordinators that run with --insecure.
  static Credentials Insecure();
  // TLS, by the files of a directory (base/security/credential.h), whose certificates are read
  // again as they change, unless they cannot be used. The coordinator must have a certificate of an
  // authority in that directory, which must hold a coordinator's identity or the host of the
  // address. Errors: those of ReadCredential and CheckCredential.
  static absl::StatusOr<Credentials> FromDir(const std::string& dir);

  // The same, by contents that do not change.
  static Credentials Of(const security::Credential& credential);
  // Every call gives the error, and nothing is sent.
  static Credentials Missing(absl::Status why);

  const absl::Status& status() const { return status_; }
  const std::shared_ptr<grpc::ChannelCredentials>& channel() const { return channel_; }
  // Read by gRPC in place of the files of a directory. Whoever keeps channels keeps them. Null:
  // there is no certificate.
  const std::shared_ptr<CertificateCopies>& copies() const { return copies_; }
  // Goes with each call, under kTokenMetadata; empty: none.
  const std::string& token() const { return token_; }

 private:
  Credentials(std::shared_ptr<grpc::ChannelCredentials> channel, std::string token);

  std::shared_ptr<CertificateCopies> copies_;
  std::shared_ptr<grpc::ChannelCredentials> channel_;  // null: missing
  std::string token_;
  absl::Status status_;
};

// The flags of a program about its credentials.
struct CredentialFlags {
  std::string dir;                  // --credentials or DP_CREDENTIALS; empty: look for one
  bool insecure = false;            // --insecure or DP_INSECURE
  bool accept_other_users = false;  // --accept-other-users or DP_ACCEPT_OTHER_USERS
};

// Where `dpctl login` keeps the credential for the coordinator at `address`: below
// $XDG_CONFIG_HOME/dp, or ~/.config/dp. Empty if there is neither.
std::string LoginDir(const std::string& address);

// The directory that was given, else that of a login, else the local coordinator's
// (base/security/local_credential.h).
// Errors: Unauthenticated there is none; says how to get one. Unavailable the same for an address
// of this host, where a coordinator leaves one when it starts. PermissionDenied it cannot be read.
absl::StatusOr<std::string> FindCredentialDir(const std::string& address, const std::string& given);

// Rejects a credential that other users can change or read, unless they are accepted.
// Errors: those of FindCredentialDir, CheckCredentialFiles and FromDir; Unauthenticated the
// certificate has expired, or a coordinator of another user listens at an address of this host.
absl::StatusOr<Credentials> FindCredentials(const std::string& address,
                                            const CredentialFlags& flags);

}  // namespace dp::client

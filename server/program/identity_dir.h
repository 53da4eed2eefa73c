#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/security/certificate.h"
#include "server/access/authority.h"
#include "server/program/list_expiry.h"
#include "server/program/revocation_lists.h"
#include "server/rpc/server.h"

namespace dp::server {

// The facts that the identity of a coordinator depends on, besides its files.
struct IdentityOptions {
  // Names and addresses at which it can be reached; its certificate holds them.
  std::vector<std::string> hosts;
  // The files below are rejected if other users can write or replace them, and the key if they can
  // read it. A certificate and key from elsewhere in place of its own; both or neither.
  std::string chain_file = {};
  std::string key_file = {};
  // Further authorities whose certificates callers may show; may be empty.
  std::string clients_file = {};
  std::string crl_dir = {};
  // Whether other users may own or write the files.
  bool accept_other_users = false;
};

// The keys and certificates of a coordinator, below its data directory (docs/security.md):
// - ca.crt, ca.key: the authority of the cluster, made at the first start;
// - token.key: the key with which tokens are made and checked;
// - secret.key: the key that seals the secrets of jobs, which the journal holds;
// - server/: the coordinator's certificate and key or copies of those from elsewhere, the
//   authorities of its callers, and copies of their revocation lists;
// - admin/: the credential of an administrator (base/security/credential.h).
//
// Not thread-safe; owned by main.
class IdentityDir {
 public:
  // Makes what is missing, and closes the files to others.
  // Errors: FailedPrecondition a file is damaged, or the key is not that of its certificate.
  // PermissionDenied a file cannot be read or written, or other users own or can write one.
  static absl::StatusOr<IdentityDir> Open(const std::filesystem::path& path,
                                          const IdentityOptions& options, absl::Time now);

  // Renews what ends soon, and takes over changed files from elsewhere. Logs which revocation lists
  // have expired or will soon. Call it every few seconds.
  absl::Status Refresh(absl::Time now);

  // A new credential for the administrator, whose certificate counts from `now` on. Whoever can
  // start the coordinator on its data directory is thus never locked out.
  absl::Status RenewAdmin(absl::Time now);

  const Authority& authority() const { return *authority_; }
  TlsOptions tls() const;
  std::string admin_dir() const { return path_ / "admin"; }
  // Whether this is the first start.
  bool made() const { return made_; }

 private:
  IdentityDir(std::filesystem::path path, IdentityOptions options);

  absl::Status OpenAuthority(absl::Time now);
  absl::StatusOr<security::SealingKey> OpenSealingKey() const;
  absl::Status RefreshServer(absl::Time now);
  absl::Status CopyGiven(absl::Time now);
  absl::Status RefreshAdmin(absl::Time now);
  absl::Status RefreshClients(absl::Time now);
  absl::Status RefreshOtherAuthorities();
  void WarnOfLists(absl::Time now);
  // Whether its authority has signed the certificate that the coordinator shows, and is shown too.
  bool ShowsAuthority() const;
  // Checks a file that the flag names. `safe` is what CheckSafePath or CheckPrivateFile says of it.
  absl::Status CheckOtherUsers(const std::string& flag, const absl::Status& safe);

  std::filesystem::path path_;
  IdentityOptions options_;
  std::unique_ptr<Authority> authority_;
  std::optional<RevocationLists> lists_;
  std::vector<security::Certificate> other_authorities_;  // of --client-ca, when it was last usable
  std::set<std::string> warned_;                          // of what other users can do
  bool made_ = false;
  RevocationListWatch lists_watch_;
};

// The names and addresses of this host, for IdentityOptions.
std::vector<std::string> HostsOfThisMachine();

}  // namespace dp::server

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/security/credential.h"
#include "client/connection.h"
#include "client/credentials.h"

namespace dp::ctl {

// The logins of this user on this machine: a directory for each coordinator, with a credential.
// program/machine_logins.h has the real functions, tests make fakes.
struct Logins {
  // The directory of the login for an address, whether or not there is one.
  // Errors: FailedPrecondition the user has no directory for settings.
  std::function<absl::StatusOr<std::string>(const std::string& address)> dir;
  // Makes the directory, and checks that `save` can write there.
  // Errors: those of security::PrepareCredentialDir.
  std::function<absl::Status(const std::string& dir, bool accept_other_users)> prepare;
  // Exchanges a person's join token for a credential. One attempt, since it may use the token up.
  // Errors: those of client::EnrolByToken.
  std::function<absl::StatusOr<security::Credential>(
      const std::string& address, const std::string& token, absl::Duration timeout)>
      enrol;
  // Errors: those of security::WriteCredential.
  std::function<absl::Status(const std::string& dir, const security::Credential& credential)> save;
  // Returns whether there was a login. Errors: PermissionDenied.
  std::function<absl::StatusOr<bool>(const std::string& dir)> remove;
  // Renews the login if it is due and `connection` uses it. Failures are ignored: the next command
  // tries again.
  std::function<void(client::Connection& connection, const std::string& address,
                     const client::CredentialFlags& flags)>
      renew;
  // The first line of standard input; nullopt: standard input is a terminal.
  std::function<std::optional<std::string>()> read_line;
};

}  // namespace dp::ctl

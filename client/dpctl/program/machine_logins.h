#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/connection.h"
#include "client/dpctl/logins.h"

namespace dp::ctl {

// The logins in this user's directory for settings (client::LoginDir).
Logins MachineLogins();

// The parts of MachineLogins that tests call by themselves.

// Removes the directory. Returns whether it was there.
// Errors: PermissionDenied names the directory and the reason.
absl::StatusOr<bool> RemoveLogin(const std::string& dir);

// Replaces the certificate in `dir` by a later one if less than half of its time is left at `now`.
// `connection` uses the certificate. Blocks for at most two seconds. Only one process at a time
// renews it; others do nothing. A login that replaces the credential meanwhile wins.
// Errors: those of security::ReadCredential, client::Renew and security::WriteCredential.
absl::Status RenewLogin(const std::string& dir, client::Connection& connection, absl::Time now);

}  // namespace dp::ctl

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dp::security {

// A cluster on one machine needs no set-up. Its coordinator leaves a link to the administrator's
// credential, where the other programs of the same user on this host look for it.

// The directory of the links: /run/user/UID/dp, or /tmp/dp-UID where the system has made no
// /run/user/UID. Only that user may read or write there; both functions below check that.
std::string LocalCredentialLinks();

// Links the credential in `dir` to the address of a coordinator (host:port), and removes links of
// earlier days to directories that are gone. A wildcard host stands for every address with the
// port.
// Errors: PermissionDenied the directory of links is another user's, or cannot be written.
absl::Status LinkLocalCredential(const std::string& address, const std::string& dir,
                                 const std::string& links = LocalCredentialLinks());

// Removes that link, unless another coordinator has replaced it.
void UnlinkLocalCredential(const std::string& address, const std::string& dir,
                           const std::string& links = LocalCredentialLinks());

// The directory of the credential for the address, which nobody else can replace (CheckSafePath).
// Removes a link to a directory that is gone.
// Errors: NotFound no coordinator of this user has linked one; PermissionDenied the directory of
// links is another user's, or others can replace the credential.
absl::StatusOr<std::string> FindLocalCredential(const std::string& address,
                                                const std::string& links = LocalCredentialLinks());

}  // namespace dp::security

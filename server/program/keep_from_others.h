#pragma once

#include <filesystem>

#include "absl/status/status.h"

namespace dp::server {

// Closes an identity directory to other users, with all that it holds. Copies lose modes, as by
// `cp -r`; the log names each path that others could use. Unless they are accepted, other users
// neither own nor can write or replace anything there.
// Errors: PermissionDenied names the path and the remedy.
absl::Status KeepFromOthers(const std::filesystem::path& dir, bool accept_other_users);

}  // namespace dp::server

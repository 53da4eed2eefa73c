#pragma once

#include <string>

#include "absl/status/status.h"

namespace dp::security {

// Finds files that nobody else can replace, by the rules of ssh for its keys. A file or directory
// is safe if this process's user or root owns it, and no other user may write it. A group may write
// that is this user's own and has no other member.

// Checks `path` and each directory and link on the way to it. Others may write a directory on the
// way that has the sticky bit, as /tmp: they cannot replace the next part there.
// Errors: NotFound a part does not exist; PermissionDenied a part is not safe. The message names
// the part, its owner and mode, and the remedy if there is one.
absl::Status CheckSafePath(const std::string& path);

// The same for a file with a private key or another secret, which no other user may read either.
// For users other than root, a group may read a file of root's, as in volumes of Kubernetes. A
// group may also read any file that it might write.
absl::Status CheckPrivateFile(const std::string& path);

}  // namespace dp::security

#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace dp::worker {

// Removes a directory of this process's user and all below it, whoever owns it there and whatever
// its modes are, as CAP_CHOWN and CAP_DAC_OVERRIDE allow. Follows no link. Needs a handful of
// descriptors, however deep the tree is. `go_on` is asked before each entry. Blocks. Errors:
// NotFound there is none; Cancelled go_on said no; Internal names the path and the reason.
absl::Status RemoveTree(const std::string& path, const std::function<bool()>& go_on);

}  // namespace dp::worker

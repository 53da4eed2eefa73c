#pragma once

#include <string>

namespace dp::worker {

// Lets other users pass through a directory of this process's user, which they cannot list (mode
// 0711). Returns 0, or the number of the error.
int MakePassable(const std::string& dir);

}  // namespace dp::worker

#pragma once

#include <sys/types.h>

#include <vector>

namespace dp::worker {

// The processes alive now whose chain of parents leads to `root`, without `root` and without
// zombies, in no particular order. What forks meanwhile may be missed: ask again until none is
// left.
std::vector<pid_t> Descendants(pid_t root);

// Sends SIGKILL to all of them once.
void KillDescendants(pid_t root);

// The processes whose parent is `parent`, zombies too.
std::vector<pid_t> Children(pid_t parent);

}  // namespace dp::worker

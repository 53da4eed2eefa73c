#pragma once

#include <sys/types.h>

#include <vector>

namespace dp::worker {

// The live processes whose chain of parents leads to `root`, in no particular order. Excludes
// `root` and zombies. May miss processes that are forked meanwhile: repeat until none is left.
std::vector<pid_t> Descendants(pid_t root);

// Sends SIGKILL once to each of them.
void KillDescendants(pid_t root);

// The processes whose parent is `parent`, zombies too.
std::vector<pid_t> Children(pid_t parent);

}  // namespace dp::worker

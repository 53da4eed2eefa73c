#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <vector>

namespace dp::worker {

// The live processes whose chain of parents leads to one of `roots`, in no particular order.
// Excludes the roots and zombies. May miss processes that are forked meanwhile: repeat until none
// is left.
std::vector<pid_t> Descendants(std::set<pid_t> roots);
std::vector<pid_t> Descendants(pid_t root);
// The same with the roots, zombies too. Reads only the processes of the tree, which takes some
// microseconds for each of their threads. May miss more, as the later ones while an earlier one
// ends. Nothing if the kernel does not list children (CONFIG_PROC_CHILDREN).
std::optional<std::vector<pid_t>> QuickTree(std::vector<pid_t> roots);

// The part of /proc/PID/stat that counts here.
struct ProcessStat {
  pid_t parent = 0;
  bool zombie = false;

  bool operator==(const ProcessStat&) const = default;
};

// Nothing if the text is no such file. The text may end anywhere behind the parent. Pure.
std::optional<ProcessStat> ParseProcessStat(const char* text);

// Sends SIGKILL once to each of them.
void KillDescendants(pid_t root);

// The processes whose parent is `parent`, zombies too.
std::vector<pid_t> Children(pid_t parent);

}  // namespace dp::worker

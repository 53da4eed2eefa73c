#pragma once

#include <optional>
#include <string>
#include <vector>

#include "worker/agent/sandbox/mount_plan.h"

// The system calls that give a process files of its own. They change the calling process, so
// dp-guard calls them between fork and exec. Uses no library. One thread.

namespace dp::worker {

// A step that the kernel refused.
struct MountFault {
  int error = 0;  // errno
  std::string step;
};

// The kernel's calls for mounts: those of Linux 5.12, or those that every kernel has. The newest
// look up no path that the plan does not name, so a file system that hangs delays no rank.
enum class MountCalls { kNewest, kClassic };

// The host's directories for temporary files, without links.
std::vector<TmpPlace> TmpPlaces();

// Gives this process a mount namespace of its own. Without the right to do so it also gets a user
// namespace, in which it has its own user and group alone; not if `keep_users`. Nothing of it
// reaches the host. With `follow_host`, what the host mounts later appears.
std::optional<MountFault> EnterMountNamespace(bool keep_users, bool follow_host);

// Carries out the plan in this process's own mount namespace.
std::optional<MountFault> MakeMounts(const MountPlan& plan, MountCalls calls = MountCalls::kNewest);

// Both, for the mounts of a rank. The working directory stays the same path, or becomes / if the
// path is gone.
std::optional<MountFault> Confine(const RankMounts& mounts, bool keep_users);

}  // namespace dp::worker

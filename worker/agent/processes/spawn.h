#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "worker/agent/processes/process_runner.h"

namespace dp::worker {

struct SpawnedGuard {
  pid_t pid = 0;
  FileDescriptor socket;  // the daemon's end (guard_protocol.h)
};

// A rank's soft limit of open files, if the hard limit allows it. PyTorch's data loaders pass
// tensors as descriptors and exceed the usual 1,024. A higher limit slows down programs that loop
// over all possible descriptors.
inline constexpr size_t kRankDescriptors = 65536;

// The limits of a rank, and the cgroups that hold it.
struct Confinement {
  size_t descriptors = 0;            // the soft limit of its open files
  int guard_lock = -1;               // held by its guard (guard_lock.h); -1: none
  std::vector<std::string> cgroups;  // to join; all in the first one die with the rank
};

// The options of a guard for these mounts.
std::vector<std::string> MountArguments(const RankMounts& mounts);

// Starts a guard that runs `command`. The guard is in its own session, out of reach of a terminal's
// signals. It inherits its socket, the lock on STATE_DIR/guards and the rank's files, and no other
// descriptor, even if a library opened one without O_CLOEXEC. Safe in a process with many threads:
// none of our code runs between fork and exec. Errors: NotFound, Internal with the reason.
absl::StatusOr<SpawnedGuard> SpawnGuard(const std::string& guard_path,
                                        const Confinement& confinement, const RankCommand& command);

}  // namespace dp::worker

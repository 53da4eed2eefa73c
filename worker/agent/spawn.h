#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "worker/agent/process_runner.h"

namespace dp::worker {

struct SpawnedGuard {
  pid_t pid = 0;
  FileDescriptor socket;  // this side of it (guard_protocol.h)
};

// A rank's soft limit of open files, where the hard limit allows it. PyTorch's data loaders pass
// tensors as descriptors and run out of the usual 1,024. More would slow programs that go through
// all numbers that a descriptor may have.
inline constexpr size_t kRankDescriptors = 65536;

// What confines a rank.
struct Confinement {
  size_t descriptors = 0;            // that it may have open
  int guard_lock = -1;               // for the guard to hold (guard_lock.h); -1: none
  std::vector<std::string> cgroups;  // for it to join; the first holds all that is to be killed
};

// Starts a guard with `command` to run, in a session of its own so that a terminal's signals pass
// it by. The guard inherits its socket, the lock on STATE_DIR/guards and the rank's files, and no
// other descriptor, whether or not this process has opened the others with O_CLOEXEC: libraries do
// not. Safe in a process with many threads: nothing of ours runs between fork and exec. Errors:
// NotFound, Internal with the reason.
absl::StatusOr<SpawnedGuard> SpawnGuard(const std::string& guard_path,
                                        const Confinement& confinement, const RankCommand& command);

}  // namespace dp::worker

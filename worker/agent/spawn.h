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

// What confines a rank.
struct Confinement {
  size_t descriptors = 0;            // that it may have open
  std::vector<std::string> cgroups;  // for it to join; the first holds all that is to be killed
};

// Starts a guard with `command` to run, in a session of its own so that a terminal's signals pass
// it by. Safe in a process with many threads: nothing of ours runs between fork and exec. Errors:
// NotFound, Internal with the reason.
absl::StatusOr<SpawnedGuard> SpawnGuard(const std::string& guard_path,
                                        const Confinement& confinement, const RankCommand& command);

}  // namespace dp::worker

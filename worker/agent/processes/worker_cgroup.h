#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/file_descriptor.h"

namespace dp::worker {

// This daemon's own cgroup in one hierarchy, below the cgroup that the daemon was started in. The
// cgroup exists, and is locked, as long as this object. A later daemon recognises the unlocked
// cgroups of killed daemons and kills the processes in them. Not thread-safe.
class WorkerCgroup {
 public:
  // Errors: those of mkdir, with the path, for example PermissionDenied; Aborted each new cgroup
  // was removed at once.
  static absl::StatusOr<WorkerCgroup> Make(const std::string& parent);

  WorkerCgroup(WorkerCgroup&& other) noexcept = default;
  WorkerCgroup& operator=(WorkerCgroup&&) = delete;
  ~WorkerCgroup();

  const std::string& dir() const { return dir_; }
  const std::string& parent() const { return parent_; }

  // Moves this process to a leaf of the cgroup: a v2 cgroup that passes controllers down may hold
  // no process itself. If this works, ranks can be moved as well. Errors: PermissionDenied and
  // others, with the path.
  absl::Status MoveIn();
  // Makes the cgroups below limit memory (v2). Call after MoveIn. False if this process was not
  // alone in the parent, or if the parent does not get the memory controller.
  bool LimitsMemory();

 private:
  WorkerCgroup(std::string parent, std::string dir, FileDescriptor lock);

  std::string parent_;
  std::string dir_;
  FileDescriptor lock_;
  bool moved_in_ = false;
  bool enabled_in_parent_ = false;
};

// Kills the processes in a cgroup and below, and returns false. If there are none, removes the
// cgroup and returns true. Cgroups that cannot be removed for other reasons are left to
// StaleCgroups.
bool EmptyCgroup(const std::string& dir);

// Kills the processes in a cgroup and below, waits until they are gone, and removes the cgroup.
// False if a process outlives `patience`, for example in an uninterruptible system call.
bool EndCgroup(const std::string& dir, absl::Duration patience,
               const Clock& clock = Clock::Steady());

// The cgroups that dead daemons left behind. Not thread-safe.
class StaleCgroups {
 public:
  explicit StaleCgroups(const Clock& clock = Clock::Steady()) : clock_(clock) {}

  // Ends each cgroup below `parent` whose daemon is dead. Waits up to 10 s for each.
  void End(const std::string& parent);
  // Whether no process is left in them. Kills the remaining processes again.
  bool Gone();

 private:
  void EndIfStale(const std::string& dir);

  const Clock& clock_;
  std::vector<std::string> populated_;
};

}  // namespace dp::worker

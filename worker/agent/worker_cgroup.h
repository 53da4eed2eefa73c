#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/file_descriptor.h"

namespace dp::worker {

// A cgroup of this daemon's own in one hierarchy, below the one that it was started in, for as long
// as this lives. It is locked, so that a later daemon tells those that were left by daemons that
// were killed, and ends what still runs there. Not thread-safe.
class WorkerCgroup {
 public:
  // Errors: whatever mkdir meets, with the path: PermissionDenied where it may not be written.
  static absl::StatusOr<WorkerCgroup> Make(const std::string& parent);

  WorkerCgroup(WorkerCgroup&& other) noexcept = default;
  WorkerCgroup& operator=(WorkerCgroup&&) = delete;
  ~WorkerCgroup();

  const std::string& dir() const { return dir_; }
  const std::string& parent() const { return parent_; }

  // Moves this process to a leaf of it, as a cgroup of v2 that gives controllers to those below it
  // may hold no process itself. Whoever can do this can move ranks as well.
  // Errors: PermissionDenied and others, with the path.
  absl::Status MoveIn();
  // Has its cgroups limit memory (v2). After MoveIn; false where this process was not alone in the
  // parent, or memory is not handed down to there.
  bool LimitsMemory();

 private:
  WorkerCgroup(std::string parent, std::string dir, FileDescriptor lock);

  std::string parent_;
  std::string dir_;
  FileDescriptor lock_;
  bool moved_in_ = false;
  bool enabled_in_parent_ = false;
};

// Kills what is in a cgroup and below, and removes it once nothing is; false while something is.
// What cannot be removed for other reasons is left to StaleCgroups.
bool EmptyCgroup(const std::string& dir);

// Kills what is in a cgroup and below, waits until it is gone, and removes it. False where
// something outlives `patience`: a process in a call that the kernel does not break off.
bool EndCgroup(const std::string& dir, absl::Duration patience,
               const Clock& clock = Clock::Steady());

// The cgroups that dead daemons left behind. Not thread-safe.
class StaleCgroups {
 public:
  explicit StaleCgroups(const Clock& clock = Clock::Steady()) : clock_(clock) {}

  // Ends each cgroup below `parent` whose daemon is dead, with 10 s patience for each.
  void End(const std::string& parent);
  // Whether no process is left in them. Kills what is left once more.
  bool Gone();

 private:
  void EndIfStale(const std::string& dir);

  const Clock& clock_;
  std::vector<std::string> populated_;
};

}  // namespace dp::worker

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace dp::worker {

// The lock's file, in a daemon's state directory.
inline constexpr char kGuardsName[] = "/guards";

// Detects guards of an earlier daemon of the same state directory. Every guard inherits the lock on
// STATE_DIR/guards and exits, which drops the lock, when nothing is left of its rank. A daemon that
// gets the lock alone therefore knows that no earlier guard runs. The daemon holds the lock of the
// directory itself, so no two daemons test at once. Processes that a killed guard left behind are
// not covered (docs/worker.md). EarlierGuardsGone: one thread at a time. fd(): any thread.
class GuardLock {
 public:
  // Errors: Internal names the path and the reason.
  static absl::StatusOr<GuardLock> Open(const std::string& state_dir);

  // Stays true once it is true. Guards that inherit fd() do not count.
  bool EarlierGuardsGone();
  // For guards to inherit; close-on-exec.
  int fd() const { return lock_.get(); }

 private:
  explicit GuardLock(FileDescriptor lock) : lock_(std::move(lock)) {}

  FileDescriptor lock_;
  bool alone_ = false;
};

}  // namespace dp::worker

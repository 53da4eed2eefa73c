#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace dp::worker {

// Tells whether guards of an earlier daemon of the same state directory still run. Every guard
// inherits the lock on STATE_DIR/guards and drops it by exiting, which it does when nothing is left
// of its rank. So who gets that lock alone knows that no guard of an earlier daemon runs, nor
// anything that such a guard looked after. The daemon holds the lock of the directory itself, so
// nobody else asks at the same time. One thread at a time.
class GuardLock {
 public:
  // Errors: Internal names the path and the reason.
  static absl::StatusOr<GuardLock> Open(const std::string& state_dir);

  // Once true it stays so. The guards that inherit fd() do not count.
  bool EarlierGuardsGone();
  // For guards to inherit; close-on-exec.
  int fd() const { return lock_.get(); }

 private:
  explicit GuardLock(FileDescriptor lock) : lock_(std::move(lock)) {}

  FileDescriptor lock_;
  bool alone_ = false;
};

}  // namespace dp::worker

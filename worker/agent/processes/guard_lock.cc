#include "worker/agent/processes/guard_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/agent/processes/guard_protocol.h"

namespace dp::worker {

absl::StatusOr<GuardLock> GuardLock::Open(const std::string& state_dir) {
  const std::string path = state_dir + kGuardsName;
  const FileDescriptor low(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  FileDescriptor file(low.valid() ? fcntl(low.get(), F_DUPFD_CLOEXEC, kGuardLockFd + 1) : -1);
  if (!file.valid()) {
    return absl::InternalError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno),
                                            "; give a --state-dir that can be written"));
  }
  if (flock(file.get(), LOCK_SH | LOCK_NB) == 0) return GuardLock(std::move(file));
  return absl::InternalError(absl::StrCat("cannot lock ", path, ": ", std::strerror(errno),
                                          "; give a --state-dir on a file system that has flock"));
}

// The guards of several daemons share the lock. This daemon can get it exclusively, for a moment,
// once no earlier guard is left. Both locks belong to the open file that this daemon's own guards
// share.
bool GuardLock::EarlierGuardsGone() {
  if (alone_) return true;
  alone_ = flock(lock_.get(), LOCK_EX | LOCK_NB) == 0;
  // Back to shared; a failed conversion may have dropped the lock altogether.
  (void)flock(lock_.get(), LOCK_SH | LOCK_NB);
  return alone_;
}

}  // namespace dp::worker

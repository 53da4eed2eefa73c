#pragma once

#include <string>

#include "absl/time/time.h"
#include "base/file_descriptor.h"

namespace dp {

// Waits until a file may have changed. The kernel reports writes of this machine at once. It does
// not report writes of other machines to a shared network file system, so Wait also returns now and
// then. Not thread-safe; one per waiting call.
class FileChange {
 public:
  explicit FileChange(const std::string& path);

  // Blocks until a change since the construction or the last Wait, but no longer than `timeout` or
  // a short moment.
  void Wait(absl::Duration timeout);

 private:
  FileDescriptor inotify_;  // not valid if the system has no more of them
};

}  // namespace dp

#pragma once

#include <string>

#include "absl/time/time.h"
#include "base/file_descriptor.h"

namespace dp {

// Tells when a file may have changed. Writes of this machine are told at once; those of others, on
// a file system that is shared over a network, are not told at all: there it wakes now and then.
// Not thread-safe; one a waiting call.
class FileChange {
 public:
  explicit FileChange(const std::string& path);

  // Blocks until a change since the construction or the last Wait, or for `timeout`, or a moment.
  void Wait(absl::Duration timeout);

 private:
  FileDescriptor inotify_;  // not valid where the system has no more of them
};

}  // namespace dp

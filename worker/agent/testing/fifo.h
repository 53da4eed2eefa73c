#pragma once

#include <string>

#include "absl/time/time.h"
#include "base/file_descriptor.h"

namespace dp::worker {

// A named pipe that tests meet their child processes at: the children hold the writing end, so its
// end of file says that all of them are gone.
class Fifo {
 public:
  explicit Fifo(const std::string& path);

  const std::string& path() const { return path_; }
  // Waits for the next bytes, or the end of file as "". "timeout" when neither comes in time.
  std::string Read();

 private:
  const std::string path_;
  FileDescriptor reader_;
};

// A fresh directory, removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace dp::worker

#pragma once

#include <string>

#include "absl/time/time.h"
#include "base/file_descriptor.h"

namespace dp::worker {

// A named pipe between a test and its child processes. The children hold the writing end open, so
// end of file means that all of them are gone.
class Fifo {
 public:
  explicit Fifo(const std::string& path);

  const std::string& path() const { return path_; }
  // Waits for the next bytes; "" at end of file, "timeout" if neither comes in time.
  std::string Read();

 private:
  const std::string path_;
  FileDescriptor reader_;
};

// A fresh directory, removed with its content.
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

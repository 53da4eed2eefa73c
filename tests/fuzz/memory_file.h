#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/file_descriptor.h"

namespace dp::fuzz {

// A file of these bytes that is on no disk, for parsers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(absl::string_view bytes) : file_(memfd_create("fuzz", MFD_CLOEXEC)) {
    DP_CHECK(write(file_.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }

  std::string path() const { return absl::StrCat("/proc/self/fd/", file_.get()); }

 private:
  const FileDescriptor file_;
};

}  // namespace dp::fuzz

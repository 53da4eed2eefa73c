#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"

namespace dp::ctl {

// A directory in the system's temporary one, which goes with this object. One whose process died
// without its destructors goes when the next is made: the file `lock` in it is locked by nobody
// then. Not thread-safe.
class ScratchDir {
 public:
  ScratchDir() = default;
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  // Once. Errors: FailedPrecondition none can be made; the message says where.
  absl::Status Make();
  std::string Of(absl::string_view name) const;

 private:
  std::string path_;
  FileDescriptor lock_;
};

}  // namespace dp::ctl

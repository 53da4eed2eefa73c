#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"

namespace dp::ctl {

// A directory in the system's temporary one, removed with this object. If its process dies without
// destructors, the next one to be made removes it: nobody locks its file `lock` then. Not
// thread-safe.
class ScratchDir {
 public:
  ScratchDir() = default;
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  // Call it once. Errors: FailedPrecondition no directory can be made; the message says where.
  absl::Status Make();
  std::string Of(absl::string_view name) const;

 private:
  std::string path_;
  FileDescriptor lock_;
};

}  // namespace dp::ctl

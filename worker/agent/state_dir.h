#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace dp::worker {

// Files in it that tell the next daemon about this one: IncarnationRecord, GuardLock.
inline constexpr char kIncarnationsName[] = "/incarnations";
inline constexpr char kNewIncarnationsName[] = "/incarnations.new";  // renamed to the one above
inline constexpr char kGuardsName[] = "/guards";

// The directory a daemon keeps its files in, locked so that no other daemon uses it. Destroying it
// unlocks it, and removes it if nothing is left in it. A directory that nobody has named is also
// removed with the files above, since no later daemon would look for them. Not thread-safe; owned
// by main.
class StateDir {
 public:
  // Uses `path`, making it if need be; or, where that is empty, a directory of this daemon alone
  // below the first of these that can be written: $XDG_STATE_HOME/dp, ~/.local/state/dp (root
  // without XDG_STATE_HOME: /var/lib/dp), and the directory for temporary files. There it takes
  // over what a daemon that is no more has left, if that one served the same `coordinator`; else it
  // makes a fresh one. Errors: FailedPrecondition another daemon uses it; Internal names the path
  // and the reason.
  static absl::StatusOr<StateDir> Open(const std::string& path, const std::string& coordinator);

  StateDir(StateDir&& other) noexcept = default;
  StateDir& operator=(StateDir&& other) noexcept = default;
  ~StateDir();

  // Absolute.
  const std::string& path() const { return path_; }

 private:
  StateDir(std::string path, bool named, FileDescriptor lock);

  std::string path_;
  bool named_ = false;  // by whoever started the daemon
  FileDescriptor lock_;
};

}  // namespace dp::worker

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace dp::worker {

// Files in the directory that tell the next daemon about this one: IncarnationRecord. GuardLock has
// one more, kGuardsName.
inline constexpr char kIncarnationsName[] = "/incarnations";
inline constexpr char kNewIncarnationsName[] = "/incarnations.new";  // renamed to the one above

// The directory of a daemon's files, locked so that no other daemon uses it. The destructor unlocks
// the directory. If nothing else is left in it, the destructor removes the daemon's files, and the
// directory unless it was there before. For a directory that nobody named, the files for the next
// daemon do not count: no later daemon would look for them. They do not count either if no daemon
// has registered from the directory, as after a join that failed. Not thread-safe; owned by main.
class StateDir {
 public:
  // Uses `path`, and makes it if necessary. If `path` is empty, uses a directory of this daemon
  // alone. It lies below the first of these that can be written: $XDG_STATE_HOME/dp,
  // ~/.local/state/dp (for root without XDG_STATE_HOME: /var/lib/dp), the directory for temporary
  // files. There the daemon takes over the directory of a dead daemon of the same `coordinator`;
  // without one it makes a fresh directory. Without `accept_other_users`, rejects a directory that
  // others can change or replace, or that holds what others could have put there (CheckSafePath).
  // Nothing is changed then. Errors: FailedPrecondition another daemon uses it; PermissionDenied
  // others can write it; Internal names the path and the reason.
  static absl::StatusOr<StateDir> Open(const std::string& path, const std::string& coordinator,
                                       bool accept_other_users = false);

  StateDir(StateDir&& other) noexcept = default;
  StateDir& operator=(StateDir&& other) noexcept = default;
  ~StateDir();

  // Lets processes of other users pass through the directory to files below it, without listing it.
  // For a daemon that runs ranks as other users. Errors: FailedPrecondition a directory above is
  // closed to them, or the directory is another user's, who could change it; names the remedy.
  absl::Status OpenToOtherUsers() const;

  // Absolute and without links.
  const std::string& path() const { return path_; }

 private:
  enum class Origin {
    kChosen,  // nobody named it
    kMade,    // the user named it, and it is new
    kFound,   // the user named it, and it was there
  };

  StateDir(std::string path, Origin origin, FileDescriptor lock);

  std::string path_;
  Origin origin_;
  FileDescriptor lock_;
};

}  // namespace dp::worker

#include "worker/agent/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

constexpr char kLockName[] = "/lock";

std::vector<fs::path> Parents() {
  std::vector<fs::path> parents;
  const char* state_home = getenv("XDG_STATE_HOME");
  const char* home = getenv("HOME");
  if (state_home != nullptr && *state_home != '\0') {
    parents.push_back(fs::path(state_home) / "dp");
  } else if (geteuid() == 0) {
    parents.push_back("/var/lib/dp");
  } else if (home != nullptr && *home != '\0') {
    parents.push_back(fs::path(home) / ".local/state/dp");
  }
  std::error_code error;
  parents.push_back(fs::temp_directory_path(error) / "dp");
  return parents;
}

absl::StatusOr<std::string> MakeFresh() {
  std::string reasons;
  for (const fs::path& parent : Parents()) {
    std::error_code error;
    fs::create_directories(parent, error);
    std::string path = (parent / "worker-XXXXXX").string();
    if (!error && mkdtemp(path.data()) != nullptr) return path;
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", parent.string(), ": ",
                    error ? error.message() : std::strerror(errno));
  }
  return absl::InternalError(
      absl::StrCat("no place for a state directory: ", reasons, "; give one with --state-dir"));
}

absl::StatusOr<std::string> Make(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) {
    const fs::path absolute = fs::absolute(path, error);
    if (!error) return absolute.string();
  }
  return absl::InternalError(absl::StrCat("state directory ", path, ": ", error.message()));
}

}  // namespace

absl::StatusOr<StateDir> StateDir::Open(const std::string& path) {
  DP_ASSIGN_OR_RETURN(std::string made, path.empty() ? MakeFresh() : Make(path));
  FileDescriptor lock(open((made + kLockName).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) {
    return absl::InternalError(absl::StrCat("state directory ", made, ": ", std::strerror(errno)));
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("state directory ", made,
                     " is in use by another dp-worker; stop that one, or give each a --state-dir "
                     "of its own"));
  }
  return StateDir(std::move(made), std::move(lock));
}

StateDir::StateDir(std::string path, FileDescriptor lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

StateDir::~StateDir() {
  if (!lock_.valid()) return;  // moved from
  // What is not empty stays: logs that could not be sent.
  rmdir((path_ + "/spool").c_str());
  std::error_code error;
  const bool only_lock = std::distance(fs::directory_iterator(path_, error), {}) == 1;
  if (!only_lock) return;
  unlink((path_ + kLockName).c_str());
  rmdir(path_.c_str());
}

}  // namespace dp::worker

#include "worker/agent/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "base/security/safe_path.h"
#include "base/status.h"
#include "worker/agent/accounts/passable_dir.h"
#include "worker/agent/processes/guard_lock.h"
#include "worker/agent/sandbox/private_tmps.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

// The lock file names the coordinator, for the daemon that takes the directory over.
constexpr char kLockName[] = "/lock";
constexpr char kFreshName[] = "worker-";

// Anybody may make a directory below /tmp, or a link, and could exchange what a daemon keeps in it.
bool IsOurs(const fs::path& path) {
  struct stat name {
  }, found{};
  return lstat(path.c_str(), &name) == 0 && stat(path.c_str(), &found) == 0 &&
         S_ISDIR(found.st_mode) && name.st_uid == geteuid() && found.st_uid == geteuid();
}

// The parts of a state directory that only its daemon makes: the directory, its files, and the
// spool's directories of jobs and generations. Files below these belong to ranks.
std::vector<fs::path> PartsOf(const fs::path& dir) {
  std::vector<fs::path> parts = {dir, dir / "spool", dir / "credential"};
  for (const std::string name : {kLockName, kIncarnationsName, kGuardsName, kPrivateTmpsName}) {
    parts.push_back(dir.string() + name);
  }
  std::error_code error;
  for (const fs::directory_entry& job : fs::directory_iterator(dir / "spool", error)) {
    parts.push_back(job.path());
    if (job.is_symlink(error)) continue;
    for (const fs::directory_entry& generation : fs::directory_iterator(job.path(), error)) {
      parts.push_back(generation.path());
    }
  }
  return parts;
}

// Whoever can change the directory decides which files a daemon of root removes and gives away.
absl::Status CheckStateDir(const fs::path& dir, bool accepted) {
  absl::Status status;
  for (const fs::path& part : PartsOf(dir)) {
    const absl::Status safe = security::CheckSafePath(part);
    if (!absl::IsNotFound(safe)) status.Update(safe);  // it is yet to be made
  }
  if (status.ok()) return absl::OkStatus();
  const std::string why(status.message());
  if (!accepted) {
    return absl::PermissionDeniedError(
        absl::StrCat("state directory ", dir.string(), " is not used: ", why,
                     "; others could change the files of this daemon by it; choose a directory of "
                     "your own with --state-dir"));
  }
  Log(Severity::kWarning, "state_dir_open_to_others", {{"path", dir.string()}, {"reason", why}});
  return absl::OkStatus();
}

absl::Status CannotBeMade(absl::string_view path, absl::string_view reason) {
  return absl::InternalError(absl::StrCat("state directory ", path, ": ", reason,
                                          "; name one that can be written by --state-dir"));
}

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

absl::StatusOr<std::string> MakeFresh(bool accept_other_users) {
  std::string reasons;
  for (const fs::path& parent : Parents()) {
    std::error_code error;
    fs::create_directories(parent, error);
    const bool others = !error && !IsOurs(parent);
    const absl::Status safe =
        accept_other_users ? absl::OkStatus() : security::CheckSafePath(parent);
    std::string path = (parent / absl::StrCat(kFreshName, "XXXXXX")).string();
    if (!error && !others && safe.ok() && mkdtemp(path.data()) != nullptr) return path;
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ",
                    error        ? absl::StrCat(parent.string(), ": ", error.message())
                    : !safe.ok() ? std::string(safe.message())
                    : others     ? absl::StrCat(parent.string(), ": it belongs to another user")
                                 : absl::StrCat(parent.string(), ": ", std::strerror(errno)));
  }
  return absl::InternalError(
      absl::StrCat("no place for a state directory: ", reasons, "; give one with --state-dir"));
}

// The lock of a directory whose daemon is dead and served this coordinator; invalid otherwise.
FileDescriptor LockOfTheGone(const std::string& path, const std::string& coordinator) {
  FileDescriptor lock(open((path + kLockName).c_str(), O_RDWR | O_CLOEXEC));
  if (!lock.valid() || flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return {};
  // An exiting daemon may have removed the file meanwhile.
  struct stat held {
  }, there{};
  if (fstat(lock.get(), &held) != 0 || stat((path + kLockName).c_str(), &there) != 0 ||
      held.st_ino != there.st_ino) {
    return {};
  }
  std::string served(coordinator.size() + 1, '\0');
  const ssize_t got = pread(lock.get(), served.data(), served.size(), 0);
  served.resize(got < 0 ? 0 : static_cast<size_t>(got));
  if (served != coordinator) return {};
  return lock;
}

std::optional<std::pair<std::string, FileDescriptor>> TakeOver(const std::string& coordinator,
                                                               bool accept_other_users) {
  for (const fs::path& parent : Parents()) {
    if (!IsOurs(parent)) continue;
    std::error_code error;
    for (fs::directory_iterator at(parent, error), last; !error && at != last;
         at.increment(error)) {
      const bool fresh = absl::StartsWith(at->path().filename().string(), kFreshName);
      if (!fresh || !IsOurs(at->path())) continue;
      if (!accept_other_users && !CheckStateDir(at->path(), /*accepted=*/false).ok()) continue;
      FileDescriptor lock = LockOfTheGone(at->path().string(), coordinator);
      if (lock.valid()) return std::pair(at->path().string(), std::move(lock));
    }
  }
  return std::nullopt;
}

// Sets `made` if the directory is new.
absl::StatusOr<std::string> Make(const std::string& path, bool* made) {
  std::error_code error;
  *made = fs::create_directories(path, error);
  if (!error) {
    const fs::path absolute = fs::absolute(path, error);
    if (!error) return absolute.string();
  }
  return CannotBeMade(path, error.message());
}

// Whether no daemon has started a rank from the directory, as after a join that failed. No daemon
// recorded an incarnation then, and no guard holds its lock.
bool IsUnused(const std::string& path) {
  if (access((path + kIncarnationsName).c_str(), F_OK) == 0) return false;
  const FileDescriptor guards(open((path + kGuardsName).c_str(), O_RDWR | O_CLOEXEC));
  return guards.valid() && flock(guards.get(), LOCK_EX | LOCK_NB) == 0;
}

// A directory that is not there yet is left to whoever makes it.
absl::Status LetOthersPassThrough(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("state directory ", path, " belongs to uid ", info.st_uid,
                     ", who could change the files of ranks; chown -R it to this daemon's user, or "
                     "name another one by --state-dir"));
  }
  const int error = MakePassable(path);
  return error == 0 ? absl::OkStatus() : CannotBeMade(path, std::strerror(error));
}

}  // namespace

absl::StatusOr<StateDir> StateDir::Open(const std::string& path, const std::string& coordinator,
                                        bool accept_other_users) {
  if (path.empty()) {
    if (auto left = TakeOver(coordinator, accept_other_users)) {
      return StateDir(left->first, Origin::kChosen, std::move(left->second));
    }
  } else {
    DP_RETURN_IF_ERROR(CheckStateDir(path, accept_other_users));
  }
  bool is_new = false;
  DP_ASSIGN_OR_RETURN(std::string made,
                      path.empty() ? MakeFresh(accept_other_users) : Make(path, &is_new));
  // Somebody may have made it meanwhile.
  if (!accept_other_users) DP_RETURN_IF_ERROR(CheckStateDir(made, /*accepted=*/false));
  const Origin origin = path.empty() ? Origin::kChosen : is_new ? Origin::kMade : Origin::kFound;
  FileDescriptor lock(open((made + kLockName).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) {
    return CannotBeMade(made, std::strerror(errno));
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("state directory ", made,
                     " is in use by another dp-worker; stop that one, or give each a --state-dir "
                     "of its own"));
  }
  // Without the name nobody takes the directory over; there is no other harm.
  (void)(ftruncate(lock.get(), 0) == 0 &&
         write(lock.get(), coordinator.data(), coordinator.size()) >= 0);
  return StateDir(std::move(made), origin, std::move(lock));
}

StateDir::StateDir(std::string path, Origin origin, FileDescriptor lock)
    : path_(std::move(path)), origin_(origin), lock_(std::move(lock)) {
  std::error_code error;
  const fs::path real = fs::canonical(path_, error);
  if (!error) path_ = real;  // for the mounts of ranks
}

absl::Status StateDir::OpenToOtherUsers() const {
  for (const std::string& ours : {path_, path_ + "/spool"}) {
    DP_RETURN_IF_ERROR(LetOthersPassThrough(ours));
  }
  std::error_code error;
  const fs::path real = fs::canonical(path_, error);
  if (error) return CannotBeMade(path_, error.message());
  for (fs::path above = real.parent_path(); above != above.root_path();
       above = above.parent_path()) {
    struct stat info {};
    if (stat(above.c_str(), &info) == 0 && (info.st_mode & S_IXOTH) != 0) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "state directory ", path_, ": ranks of other users cannot pass through ", above.string(),
        "; name another one by --state-dir, or chmod o+x ", above.string()));
  }
  return absl::OkStatus();
}

StateDir::~StateDir() {
  if (!lock_.valid()) return;  // moved from
  // rmdir keeps a spool with logs that could not be sent.
  rmdir((path_ + "/spool").c_str());
  std::set<std::string> ours{kLockName};
  if (origin_ == Origin::kChosen) {
    ours.insert({kIncarnationsName, kNewIncarnationsName, kGuardsName});
  } else if (IsUnused(path_)) {
    ours.insert(kGuardsName);
  }
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
    if (!ours.contains("/" + entry.path().filename().string())) return;
  }
  for (const std::string& name : ours) unlink((path_ + name).c_str());
  if (origin_ != Origin::kFound) rmdir(path_.c_str());
}

}  // namespace dp::worker

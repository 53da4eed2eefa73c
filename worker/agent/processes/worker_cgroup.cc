#include "worker/agent/processes/worker_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "worker/agent/processes/cgroup.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "dp-worker.";
constexpr char kLeaf[] = "/daemon";
constexpr absl::Duration kStalePatience = absl::Seconds(10);
// v1 does not report when a cgroup becomes empty, and newly forked processes need another signal.
constexpr int kAskAgainMs = 10;
constexpr int kTries = 10;

absl::Status Failed(const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cgroup ", path));
}

FileDescriptor OpenDirectory(const std::string& dir) {
  return FileDescriptor(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool Lock(const FileDescriptor& directory) {
  return directory.valid() && flock(directory.get(), LOCK_EX | LOCK_NB) == 0;
}

// Between mkdir and the lock another daemon may have removed the cgroup as a stale one.
bool IsAt(const FileDescriptor& directory, const std::string& dir) {
  struct stat opened;
  struct stat named;
  return fstat(directory.get(), &opened) == 0 && stat(dir.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino;
}

}  // namespace

bool EmptyCgroup(const std::string& dir) {
  if (CgroupWatch(dir).Populated()) {
    KillCgroup(dir);
    return false;
  }
  (void)RemoveCgroup(dir);
  return true;
}

bool EndCgroup(const std::string& dir, absl::Duration patience, const Clock& clock) {
  CgroupWatch watch(dir);
  const absl::Time deadline = clock.Now() + patience;
  while (watch.Populated() && clock.Now() < deadline) {
    KillCgroup(dir);
    pollfd events{watch.fd(), POLLPRI, 0};
    poll(&events, 1, kAskAgainMs);
  }
  return RemoveCgroup(dir);
}

void StaleCgroups::EndIfStale(const std::string& dir) {
  const FileDescriptor directory = OpenDirectory(dir);
  if (!Lock(directory)) return;
  const bool populated = CgroupWatch(dir).Populated();
  const bool ended = EndCgroup(dir, kStalePatience, clock_);
  if (!ended && CgroupWatch(dir).Populated()) populated_.push_back(dir);
  if (!populated && ended) return;
  Log(ended ? Severity::kInfo : Severity::kWarning,
      ended ? "stale_cgroup_killed" : "stale_cgroup_still_populated", {{"cgroup", dir}});
}

bool StaleCgroups::Gone() {
  std::erase_if(populated_, [](const std::string& dir) { return EmptyCgroup(dir); });
  return populated_.empty();
}

void StaleCgroups::End(const std::string& parent) {
  std::error_code error;
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (entry.path().filename().string().starts_with(kPrefix)) found.push_back(entry.path());
  }
  for (const std::string& dir : found) EndIfStale(dir);
}

absl::StatusOr<WorkerCgroup> WorkerCgroup::Make(const std::string& parent) {
  for (int tries = 0; tries < kTries; ++tries) {
    std::string dir = absl::StrCat(parent, "/", kPrefix, "XXXXXX");
    if (mkdtemp(dir.data()) == nullptr) return Failed(parent);
    FileDescriptor directory = OpenDirectory(dir);
    if (Lock(directory) && IsAt(directory, dir)) {
      return WorkerCgroup(parent, std::move(dir), std::move(directory));
    }
  }
  return absl::AbortedError(absl::StrCat("cgroup ", parent, ": what is made there is removed"));
}

WorkerCgroup::WorkerCgroup(std::string parent, std::string dir, FileDescriptor lock)
    : parent_(std::move(parent)), dir_(std::move(dir)), lock_(std::move(lock)) {}

// A cgroup that cannot be removed, for example because a rank stays in it, is left to the next
// daemon.
WorkerCgroup::~WorkerCgroup() {
  if (!lock_.valid()) return;  // moved from
  // A cgroup that passes a controller down accepts no process.
  if (enabled_in_parent_) {
    DisableMemory(dir_);
    DisableMemory(parent_);
  }
  if (moved_in_) JoinCgroup(parent_);
  RemoveCgroup(dir_);
}

bool WorkerCgroup::LimitsMemory() {
  if (EnableMemory(dir_)) return true;
  // The root cgroup is not this daemon's to change; it alone has no cgroup.type.
  if (access((parent_ + "/cgroup.type").c_str(), F_OK) != 0) return false;
  enabled_in_parent_ = EnableMemory(parent_);
  return enabled_in_parent_ && EnableMemory(dir_);
}

absl::Status WorkerCgroup::MoveIn() {
  const std::string leaf = dir_ + kLeaf;
  if (mkdir(leaf.c_str(), 0755) != 0 || !JoinCgroup(leaf)) return Failed(leaf);
  moved_in_ = true;
  return absl::OkStatus();
}

}  // namespace dp::worker

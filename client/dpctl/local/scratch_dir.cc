#include "client/dpctl/local/scratch_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dp::ctl {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "dpctl-local-";
constexpr char kLock[] = "lock";

bool TryLock(const FileDescriptor& file) {
  return file.valid() && flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

// Whether the directory is ours and its process is gone. A directory without the lock file is being
// made, or is of a release that had none.
bool LeftBehind(const fs::path& directory) {
  struct stat info {};
  if (lstat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid())
    return false;
  const FileDescriptor lock(open((directory / kLock).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  return TryLock(lock);
}

// A directory that cannot be removed stays for the next time.
void Sweep(const fs::path& parent) {
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator at(parent, error), last; !error && at != last; at.increment(error))
    if (absl::StartsWith(at->path().filename().string(), kPrefix) && LeftBehind(at->path()))
      left.push_back(at->path());
  std::error_code ignored;
  for (const fs::path& directory : left) fs::remove_all(directory, ignored);
}

}  // namespace

ScratchDir::~ScratchDir() {
  std::error_code ignored;  // a directory that cannot be removed stays
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

absl::Status ScratchDir::Make() {
  // An empty TMPDIR is as none.
  if (const char* given = std::getenv("TMPDIR"); given != nullptr && *given == '\0') {
    unsetenv("TMPDIR");
  }
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (!error) Sweep(parent);
  std::string name = (parent / (std::string(kPrefix) + "XXXXXX")).string();
  if (error || mkdtemp(name.data()) == nullptr)
    return absl::FailedPreconditionError(absl::StrCat(
        "--local can make no directory of its own in '", error ? getenv("TMPDIR") : parent.c_str(),
        "'; set TMPDIR to one that can be written"));
  path_ = name;
  // The lock file gets its name only once it is locked, so that no other process's sweep finds it
  // free.
  const std::string made = Of("lock.new");
  lock_ = FileDescriptor(open(made.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (TryLock(lock_)) fs::rename(made, Of(kLock), error);
  return absl::OkStatus();  // without a lock it is just not swept
}

std::string ScratchDir::Of(absl::string_view name) const { return absl::StrCat(path_, "/", name); }

}  // namespace dp::ctl

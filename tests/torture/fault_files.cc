#include "tests/torture/fault_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace dp::torture {
namespace {

namespace fs = std::filesystem;

FaultFiles* files = nullptr;

std::string ContentOf(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

fs::path PathOf(int fd) {
  char path[4096];
  const ssize_t size = readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), path, sizeof(path) - 1);
  return size < 0 ? fs::path() : fs::path(std::string(path, static_cast<size_t>(size)));
}

fs::path PathOf(int directory, const char* path) {
  const bool as_it_stands = directory == AT_FDCWD || path[0] == '/';
  return as_it_stands ? fs::absolute(path) : PathOf(directory) / path;
}

}  // namespace

FaultFiles::FaultFiles(fs::path root) : root_(fs::canonical(root)) {
  DP_CHECK(files == nullptr);
  SyncTree(root_);
  files = this;
}

FaultFiles::~FaultFiles() { files = nullptr; }

void FaultFiles::SyncTree(const fs::path& folder) {
  Synced(folder);
  for (const auto& entry : fs::recursive_directory_iterator(folder)) Synced(entry.path());
}

void FaultFiles::Restart(std::optional<Fault> fault) {
  fault_ = fault;
  operations_ = 0;
  unsyncable_.clear();
  failed_ = dead_ = false;
}

void FaultFiles::Crash() {
  files = nullptr;
  const uint64_t root = IdentityOf(root_);
  for (const auto& entry : fs::directory_iterator(root_)) fs::remove_all(entry.path());
  Build(root, root_);
  identities_.clear();
  names_.clear();
  contents_.clear();
  unsyncable_.clear();
  SyncTree(root_);
  files = this;
}

void FaultFiles::Build(uint64_t folder, const fs::path& to) const {
  const auto names = names_.find(folder);
  if (names == names_.end()) return;
  for (const auto& [name, identity] : names->second) {
    const bool is_folder = (identity & 1) != 0;
    if (is_folder) {
      fs::create_directory(to / name);
      Build(identity, to / name);
    } else {
      const auto content = contents_.find(identity);
      std::ofstream(to / name, std::ios::binary)
          << (content == contents_.end() ? std::string() : content->second);
    }
  }
}

// An odd identity means a folder.
uint64_t FaultFiles::IdentityOf(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return 0;
  const auto [known, is_new] = identities_.try_emplace(status.st_ino);
  if (is_new) known->second = (++last_identity_ << 1) | (S_ISDIR(status.st_mode) ? 1 : 0);
  return known->second;
}

bool FaultFiles::Covers(const fs::path& path) const {
  return path == root_ || absl::StartsWith(path.native(), root_.native() + "/");
}

int FaultFiles::Begin(bool takes_room, bool* dies) {
  mu_.lock();
  *dies = false;
  int error = 0;
  if (dead_) error = EIO;
  const int64_t operation = dead_ ? -1 : operations_++;
  if (fault_.has_value() && operation == fault_->operation) {
    failed_ = true;
    *dies = fault_->how == How::kCrashAfter;
    dead_ = fault_->how == How::kCrashBefore;
    if (!*dies) error = fault_->how == How::kFull && takes_room ? ENOSPC : EIO;
  }
  if (error != 0) mu_.unlock();
  return error;
}

void FaultFiles::End(bool dies) {
  dead_ = dead_ || dies;
  mu_.unlock();
}

void FaultFiles::Synced(const fs::path& path) {
  const uint64_t identity = IdentityOf(path);
  if (identity == 0 || unsyncable_.count(identity) > 0) return;
  if ((identity & 1) == 0) {
    contents_[identity] = ContentOf(path);
    return;
  }
  std::map<std::string, uint64_t> names;
  for (const auto& entry : fs::directory_iterator(path)) {
    names[entry.path().filename()] = IdentityOf(entry.path());
  }
  names_[identity] = std::move(names);
}

void FaultFiles::SyncFailed(const fs::path& path) {
  const std::lock_guard lock(mu_);
  if (!dead_) unsyncable_.insert(IdentityOf(path));
}

// Intercepts the calls of the code under test: decides whether each one happens, and records its
// effect.
class Calls {
 public:
  // `gone` is a path whose file, if there is one, loses its last name by the change.
  template <typename Do>
  static auto Change(const fs::path& path, bool takes_room, Do change, const fs::path& gone = {})
      -> decltype(change()) {
    if (files == nullptr || !files->Covers(path)) return change();
    bool dies = false;
    errno = files->Begin(takes_room, &dies);
    if (errno != 0) return -1;
    struct stat status {};
    const bool there = !gone.empty() && stat(gone.c_str(), &status) == 0;
    const auto result = change();
    const int error = errno;
    if (there && result == 0) files->Removed(status.st_ino);
    files->End(dies);
    errno = error;
    return result;
  }

  template <typename Do>
  static auto Change(int fd, bool takes_room, Do change) -> decltype(change()) {
    return files == nullptr ? change() : Change(PathOf(fd), takes_room, change);
  }

  template <typename Do>
  static int ChangeName(const char* name, bool takes_room, Do change) {
    return files == nullptr ? change() : Change(PathOf(AT_FDCWD, name), takes_room, change);
  }

  template <typename Do>
  static int Sync(int fd, Do sync) {
    if (files == nullptr) return sync();
    const fs::path path = PathOf(fd);
    if (!files->Covers(path)) return sync();
    bool dies = false;
    const int error = files->Begin(/*takes_room=*/false, &dies);
    if (error != 0) {
      files->SyncFailed(path);
      errno = error;
      return -1;
    }
    files->Synced(path);
    files->End(dies);
    return 0;
  }

  static int Remove(int directory, const char* name, int flags) {
    const auto remove = [&] {
      return static_cast<int>(syscall(SYS_unlinkat, directory, name, flags));
    };
    if (files == nullptr) return remove();
    const fs::path path = PathOf(directory, name);
    return Change(path, /*takes_room=*/false, remove, path);
  }

  static int Rename(const char* from, const char* to) {
    const auto rename = [&] {
      return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
    };
    if (files == nullptr) return rename();
    const fs::path path = PathOf(AT_FDCWD, to);
    return Change(path, /*takes_room=*/false, rename, path);
  }

  static int Open(int directory, const char* name, int flags, mode_t mode) {
    const auto open = [&] {
      return static_cast<int>(syscall(SYS_openat, directory, name, flags, mode));
    };
    const bool changes = (flags & (O_CREAT | O_TRUNC)) != 0;
    if (files == nullptr || !changes) return open();
    const fs::path path = PathOf(directory, name);
    struct stat status {};
    const bool there = stat(path.c_str(), &status) == 0;
    if (there && (flags & O_TRUNC) == 0) return open();
    return Change(path, /*takes_room=*/true, open);
  }
};

}  // namespace dp::torture

// The calls of this program and of the libraries that it links follow. They shadow the C library's
// functions and go to the kernel directly.
using dp::torture::Calls;

namespace {

// O_TMPFILE has several bits; O_DIRECTORY is one of them.
bool HasMode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = HasMode(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return Calls::Open(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = HasMode(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return Calls::Open(AT_FDCWD, path, flags, mode);
}
ssize_t write(int fd, const void* data, size_t size) {
  return Calls::Change(fd, /*takes_room=*/true,
                       [&] { return static_cast<ssize_t>(syscall(SYS_write, fd, data, size)); });
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return Calls::Change(fd, /*takes_room=*/true, [&] {
    return static_cast<ssize_t>(syscall(SYS_pwrite64, fd, data, size, offset));
  });
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  return pwrite(fd, data, size, offset);
}
int ftruncate(int fd, off_t size) noexcept {
  return Calls::Change(fd, /*takes_room=*/false,
                       [&] { return static_cast<int>(syscall(SYS_ftruncate, fd, size)); });
}
int ftruncate64(int fd, off64_t size) noexcept { return ftruncate(fd, size); }
int fsync(int fd) {
  return Calls::Sync(fd, [fd] { return static_cast<int>(syscall(SYS_fsync, fd)); });
}
int fdatasync(int fd) {
  return Calls::Sync(fd, [fd] { return static_cast<int>(syscall(SYS_fdatasync, fd)); });
}
int mkdir(const char* path, mode_t mode) noexcept {
  return Calls::ChangeName(path, /*takes_room=*/true, [&] {
    return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  });
}
int rename(const char* from, const char* to) noexcept { return Calls::Rename(from, to); }
int unlink(const char* path) noexcept { return Calls::Remove(AT_FDCWD, path, 0); }
int rmdir(const char* path) noexcept { return Calls::Remove(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int directory, const char* path, int flags) noexcept {
  return Calls::Remove(directory, path, flags);
}

}  // extern "C"

#include "worker/agent/sandbox/remove_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"

namespace dp::worker {
namespace {

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

bool IsDots(const char* name) {
  return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

bool Unlinked(int parent, const char* name) {
  return unlinkat(parent, name, 0) == 0 || errno == ENOENT ||
         unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

// A directory below belongs to whoever made it: in one with a sticky bit only its owner removes
// what is others'. Nobody else uses the tree any more.
FileDescriptor OpenOurs(int parent, const char* name) {
  FileDescriptor directory(openat(parent, name, kDirectory));
  if (!directory.valid() && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0) {
    directory = FileDescriptor(openat(parent, name, kDirectory));
  }
  struct stat info {};
  if (!directory.valid() || fstat(directory.get(), &info) != 0) return directory;
  if (info.st_uid != geteuid()) (void)!fchown(directory.get(), geteuid(), -1);
  if ((info.st_mode & 0700) != 0700) (void)!fchmod(directory.get(), 0700);
  return directory;
}

// Walks over the entries of directories, and removes them.
class Removal {
 public:
  Removal(int top, const std::function<bool()>& go_on) : top_(top), go_on_(go_on) {}

  // Each pass removes or lifts what the top holds. Lifting makes a tree flat, so no walk goes down.
  absl::Status Empty() {
    for (;;) {
      acted_ = false;
      left_ = false;
      const absl::Status walked = Each(top_, [this](const char* name) { Take(name); });
      if (!walked.ok() || !left_) return walked;
      if (!acted_) return absl::InternalError(std::strerror(error_));
    }
  }

 private:
  template <typename Do>
  absl::Status Each(int directory, const Do& each) {
    FileDescriptor copy(openat(directory, ".", kDirectory));
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(
        copy.valid() ? fdopendir(copy.get()) : nullptr, closedir);
    if (entries == nullptr) return absl::InternalError(std::strerror(errno));
    (void)copy.Release();
    while (const dirent* entry = readdir(entries.get())) {
      if (IsDots(entry->d_name)) continue;
      if (!go_on_()) return absl::CancelledError("removal");
      each(entry->d_name);
    }
    return absl::OkStatus();
  }

  void Take(const char* name) {
    if (Unlinked(top_, name)) {
      acted_ = true;
      return;
    }
    left_ = true;
    error_ = errno;
    const FileDescriptor directory = OpenOurs(top_, name);
    if (!directory.valid()) return;
    (void)Each(directory.get(), [&](const char* below) { Lift(directory.get(), below); });
    acted_ = Unlinked(top_, name) || acted_;
  }

  void Lift(int from, const char* name) {
    if (Unlinked(from, name)) {
      acted_ = true;
      return;
    }
    error_ = errno;
    // Its own permissions decide, too: a directory learns of its new parent.
    if (!OpenOurs(from, name).valid()) return;
    if (renameat(from, name, top_, FreeName().c_str()) == 0) {
      acted_ = true;
    } else {
      error_ = errno;
    }
  }

  std::string FreeName() {
    for (;;) {
      const std::string name = absl::StrCat(".lifted-", ++lifted_);
      if (faccessat(top_, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0) return name;
    }
  }

  const int top_;
  const std::function<bool()>& go_on_;
  uint64_t lifted_ = 0;
  bool acted_ = false;  // in this pass
  bool left_ = false;   // the pass found what it could not remove at once
  int error_ = 0;       // the latest
};

}  // namespace

absl::Status RemoveTree(const std::string& path, const std::function<bool()>& go_on) {
  const FileDescriptor top(open(path.c_str(), kDirectory));
  if (!top.valid()) {
    const std::string reason = absl::StrCat(path, ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(reason) : absl::InternalError(reason);
  }
  const absl::Status emptied = Removal(top.get(), go_on).Empty();
  if (!emptied.ok()) {
    return absl::Status(emptied.code(), absl::StrCat(path, ": ", std::string(emptied.message())));
  }
  if (rmdir(path.c_str()) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(path, ": ", std::strerror(errno)));
}

}  // namespace dp::worker

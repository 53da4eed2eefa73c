#include "server/shell/data_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace dp::server {
namespace {

absl::Status NotWritable(const std::filesystem::path& path, const std::string& why) {
  return absl::PermissionDeniedError(absl::StrCat("data directory ", path.string(),
                                                  " cannot be used: ", why,
                                                  "; choose a writable one with --data-dir"));
}

// Who holds the lock, as it wrote down itself. Only for people.
std::string Holder(int lock_fd) {
  char text[32] = {};
  const ssize_t size = pread(lock_fd, text, sizeof(text) - 1, 0);
  int pid = 0;
  return size > 0 && absl::SimpleAtoi(text, &pid) ? absl::StrCat("process ", pid)
                                                  : std::string("another coordinator");
}

}  // namespace

absl::StatusOr<DataDir> DataDir::Open(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path / "logs", error);
  if (error) return NotWritable(path, error.message());
  const std::string lock = (path / "lock").string();
  FileDescriptor held(open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!held.valid()) return NotWritable(path, std::generic_category().message(errno));
  if (flock(held.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("data directory ", path.string(), " is in use by ", Holder(held.get()),
                     "; stop it or choose another directory with --data-dir"));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(held.get(), 0) != 0 || pwrite(held.get(), pid.data(), pid.size(), 0) < 0) {
    return NotWritable(path, std::generic_category().message(errno));
  }
  return DataDir(path, std::move(held));
}

absl::Status DataDir::Sync() const {
  for (const std::filesystem::path& path : {path_, path_ / ".."}) {
    const FileDescriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // A parent that may not be read was there before.
    if (!directory.valid() && errno == EACCES) continue;
    if (directory.valid() && fsync(directory.get()) == 0) continue;
    return absl::InternalError(absl::StrCat("data directory ", path.string(), ": ",
                                            std::generic_category().message(errno),
                                            "; see to the disk, and start again"));
  }
  return absl::OkStatus();
}

}  // namespace dp::server

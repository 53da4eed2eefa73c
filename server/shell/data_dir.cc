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
  const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return NotWritable(path, std::generic_category().message(errno));
  DataDir held(path, fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("data directory ", path.string(), " is in use by ", Holder(fd),
                     "; stop it or choose another directory with --data-dir"));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    return NotWritable(path, std::generic_category().message(errno));
  }
  return held;
}

DataDir::DataDir(DataDir&& other) noexcept
    : path_(std::move(other.path_)), lock_fd_(std::exchange(other.lock_fd_, -1)) {}

DataDir::~DataDir() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

}  // namespace dp::server

#include "server/driver/ballast.h"

#include <fcntl.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/file_descriptor.h"
#include "base/program/log.h"

namespace dp::server {

Ballast::Ballast(std::filesystem::path path, uint64_t bytes, Available available)
    : path_(std::move(path)), bytes_(bytes), available_(std::move(available)) {
  // A crash may have left a partial file.
  std::error_code error;
  exists_ = std::filesystem::file_size(path_, error) >= bytes_ && !error;
}

void Ballast::ReleaseWhenFull() {
  if (available_() >= 2 * bytes_) return;
  std::error_code error;
  if (!std::filesystem::remove(path_, error)) return;
  exists_ = false;
  Log(Severity::kWarning, "ballast_released",
      {{"file", path_.string()},
       {"bytes", bytes_},
       {"reason", "the disk of --data-dir is full; free space there"}});
}

void Ballast::Restore() {
  if (exists_ || available_() < 4 * bytes_) return;
  const FileDescriptor file(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const int error =
      file.valid() ? posix_fallocate(file.get(), 0, static_cast<off_t>(bytes_)) : errno;
  exists_ = error == 0;
  const bool failed_before = std::exchange(failed_, !exists_);
  if (exists_) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);  // a partial file would only waste space
  if (failed_before) return;
  Log(Severity::kWarning, "ballast_not_made",
      {{"file", path_.string()}, {"error", std::generic_category().message(error)}});
}

}  // namespace dp::server

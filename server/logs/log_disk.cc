#include "server/logs/log_disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"

namespace dp::server {
namespace {

absl::Status FileError(const std::filesystem::path& path, int error) {
  const std::string message =
      absl::StrCat("log file ", path.string(), ": ", std::generic_category().message(error));
  const bool full = error == ENOSPC || error == EDQUOT;
  if (!full) return absl::InternalError(message);
  return absl::ResourceExhaustedError(
      absl::StrCat(message, "; make room on the disk of --data-dir, workers send again"));
}

FileDescriptor OpenFile(const std::filesystem::path& path, int flags) {
  return FileDescriptor(open(path.c_str(), flags | O_CLOEXEC, 0600));
}

}  // namespace

absl::Status WriteAt(const std::filesystem::path& path, uint64_t offset, absl::string_view data,
                     int more_flags) {
  const FileDescriptor file = OpenFile(path, O_WRONLY | O_CREAT | more_flags);
  if (!file.valid()) return FileError(path, errno);
  while (!data.empty()) {
    const ssize_t written = pwrite(file.get(), data.data(), data.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(path, errno);
    offset += written;
    data.remove_prefix(written);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAt(const std::filesystem::path& path, uint64_t offset,
                                   uint64_t size) {
  const FileDescriptor file = OpenFile(path, O_RDONLY);
  if (!file.valid()) return FileError(path, errno);
  std::string data(size, '\0');
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t got = pread(file.get(), data.data() + done, data.size() - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, errno);
    if (got == 0) break;
    done += got;
  }
  data.resize(done);
  return data;
}

absl::Status ResizeFile(const std::filesystem::path& path, uint64_t size) {
  const FileDescriptor file = OpenFile(path, O_WRONLY | O_CREAT);
  if (file.valid() && ftruncate(file.get(), static_cast<off_t>(size)) == 0) {
    return absl::OkStatus();
  }
  return FileError(path, errno);
}

absl::Status SyncPath(const std::filesystem::path& path) {
  const FileDescriptor file = OpenFile(path, O_RDONLY);
  if (!file.valid()) return errno == ENOENT ? absl::OkStatus() : FileError(path, errno);
  return fsync(file.get()) == 0 ? absl::OkStatus() : FileError(path, errno);
}

absl::Status SyncNames(const std::filesystem::path& path) {
  std::filesystem::path folder = path;
  for (int level = 0; level < 3; ++level) {
    folder = folder.parent_path();
    const absl::Status synced = SyncPath(folder);
    if (!synced.ok()) return synced;
  }
  return absl::OkStatus();
}

absl::Status MakeFolder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  const std::string message = absl::StrCat("log folder ", path.string(), ": ", error.message());
  if (error == std::errc::no_space_on_device) {
    return absl::ResourceExhaustedError(absl::StrCat(message, "; make room there"));
  }
  return absl::InternalError(
      absl::StrCat(message, "; the coordinator must be able to write everywhere below --data-dir"));
}

absl::StatusOr<uint64_t> SizeOf(const std::filesystem::path& path) {
  std::error_code error;
  const uint64_t size =
      std::filesystem::exists(path, error) ? std::filesystem::file_size(path, error) : 0;
  if (error) return FileError(path, error.value());
  return size;
}

}  // namespace dp::server

#include "worker/trainer/checkpoint/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status.h"

namespace dp::trainer {
namespace {

std::error_code LastError() { return {errno, std::generic_category()}; }

absl::Status WriteAll(int fd, const std::string& path, absl::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = write(fd, contents.data(), contents.size());
    if (written < 0 && errno != EINTR) return FileError(LastError(), "write", path);
    if (written > 0) contents.remove_prefix(static_cast<size_t>(written));
  }
  return fsync(fd) == 0 ? absl::OkStatus() : FileError(LastError(), "sync", path);
}

absl::Status ReadAll(int fd, const std::string& path, std::string& contents) {
  size_t done = 0;
  while (done < contents.size()) {
    const ssize_t got = read(fd, contents.data() + done, contents.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(LastError(), "read", path);
    if (got == 0) return absl::DataLossError(absl::StrCat(path, " ends early"));
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FileError(const std::error_code& error, absl::string_view what,
                       const std::string& path) {
  return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot ", what, " ", path));
}

absl::Status SyncDirectory(const std::string& path) {
  const FileDescriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return FileError(LastError(), "open", path);
  return fsync(directory.get()) == 0 ? absl::OkStatus() : FileError(LastError(), "sync", path);
}

absl::Status WriteAndSync(const std::string& path, absl::string_view contents) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  return file.valid() ? WriteAll(file.get(), path, contents)
                      : FileError(LastError(), "create", path);
}

absl::Status RenameDurably(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) return FileError(LastError(), "rename to", to);
  const std::string parent = std::filesystem::path(to).parent_path();
  return SyncDirectory(parent.empty() ? "." : parent);
}

absl::Status CreateDirectoriesDurably(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> holders;  // the parents of the missing directories
  fs::path missing = fs::absolute(path, error);
  for (; !missing.empty() && !fs::exists(missing, error); missing = missing.parent_path()) {
    holders.push_back(missing.parent_path());
  }
  fs::create_directories(path, error);
  if (error) return FileError(error, "create", path);
  for (const std::string& holder : holders) DP_RETURN_IF_ERROR(SyncDirectory(holder));
  return absl::OkStatus();
}

absl::StatusOr<std::string> WriteBeside(const std::string& path, absl::string_view contents,
                                        absl::string_view suffix) {
  std::string temporary = absl::StrCat(path, suffix);
  const absl::Status written = WriteAndSync(temporary, contents);
  if (written.ok()) return temporary;
  unlink(temporary.c_str());  // a partial file is useless
  return written;
}

absl::Status PutInPlace(const std::string& temporary, const std::string& path) {
  const absl::Status put = RenameDurably(temporary, path);
  if (!put.ok()) unlink(temporary.c_str());
  return put;
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents) {
  DP_ASSIGN_OR_RETURN(const std::string temporary, WriteBeside(path, contents));
  return PutInPlace(temporary, path);
}

absl::Status CheckWritable(const std::string& path, absl::string_view suffix) {
  std::error_code unknown;  // a path whose status is unknown cannot be created either
  const std::filesystem::file_status there = std::filesystem::status(path, unknown);
  if (std::filesystem::is_directory(there)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a directory; name a file in it"));
  }
  // WriteFileAtomically would replace it, not write to it.
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a device, a pipe or a socket; name a regular file"));
  }
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty() &&
      std::filesystem::status(parent, unknown).type() == std::filesystem::file_type::not_found) {
    return absl::NotFoundError(
        absl::StrCat("there is no directory ", parent.string(), " to write ", path, " into"));
  }
  DP_ASSIGN_OR_RETURN(const std::string temporary, WriteBeside(path, "", suffix));
  return unlink(temporary.c_str()) == 0 ? absl::OkStatus()
                                        : FileError(LastError(), "remove", temporary);
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t bytes_max) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return FileError(LastError(), "open", path);
  return ReadOpenFile(file.get(), path, bytes_max);
}

absl::StatusOr<std::string> ReadOpenFile(int fd, const std::string& path, int64_t bytes_max) {
  struct stat stat;
  if (fstat(fd, &stat) != 0) return FileError(LastError(), "look at", path);
  if (!S_ISREG(stat.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is no regular file"));
  }
  if (stat.st_size > bytes_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, " has ", stat.st_size, " bytes, more than ", bytes_max));
  }
  std::string contents(static_cast<size_t>(stat.st_size), '\0');
  DP_RETURN_IF_ERROR(ReadAll(fd, path, contents));
  return contents;
}

}  // namespace dp::trainer

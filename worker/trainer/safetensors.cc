#include "worker/trainer/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file_descriptor.h"
#include "base/status.h"

namespace dp::trainer {
namespace {

std::string HeaderEntry(const NamedTensor& tensor, size_t begin, size_t end) {
  return absl::StrCat("\"", tensor.name, "\":{\"dtype\":\"F32\",\"shape\":[",
                      absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[", begin, ",", end,
                      "]}");
}

std::string Header(absl::Span<const NamedTensor> tensors) {
  std::vector<std::string> entries;
  size_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const size_t end = offset + tensor.values.size() * sizeof(float);
    entries.push_back(HeaderEntry(tensor, offset, end));
    offset = end;
  }
  std::string header = absl::StrCat("{", absl::StrJoin(entries, ","), "}");
  // The format lets spaces pad the header; readers map the data, so align it.
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

absl::Status FileError(const std::string& path, const char* what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

absl::Status WriteAll(int fd, const std::string& path, absl::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = write(fd, contents.data(), contents.size());
    if (written < 0 && errno != EINTR) return FileError(path, "write");
    if (written > 0) contents.remove_prefix(static_cast<size_t>(written));
  }
  return fsync(fd) == 0 ? absl::OkStatus() : FileError(path, "sync");
}

absl::Status WriteAndSync(const std::string& path, absl::string_view contents) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  return file.valid() ? WriteAll(file.get(), path, contents) : FileError(path, "create");
}

absl::Status SyncDirectory(const std::string& path) {
  const FileDescriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return FileError(path, "open");
  return fsync(directory.get()) == 0 ? absl::OkStatus() : FileError(path, "sync");
}

}  // namespace

std::string EncodeSafetensors(absl::Span<const NamedTensor> tensors) {
  const std::string header = Header(tensors);
  const uint64_t length = header.size();
  std::string encoded;
  for (int byte = 0; byte < 8; ++byte) encoded.push_back(static_cast<char>(length >> (8 * byte)));
  encoded += header;
  for (const NamedTensor& tensor : tensors) {
    encoded.append(reinterpret_cast<const char*>(tensor.values.data()),
                   tensor.values.size() * sizeof(float));
  }
  return encoded;
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  DP_RETURN_IF_ERROR(WriteAndSync(temporary, contents));
  if (rename(temporary.c_str(), path.c_str()) != 0) return FileError(path, "rename to");
  const std::string parent = std::filesystem::path(path).parent_path();
  return SyncDirectory(parent.empty() ? "." : parent);
}

absl::Status CheckWritable(const std::string& path) {
  std::error_code unknown;  // what cannot be asked cannot be created either
  const std::filesystem::file_status there = std::filesystem::status(path, unknown);
  if (std::filesystem::is_directory(there)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a directory; name a file in it"));
  }
  // It would be replaced, not written to.
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a device, a pipe or a socket; name a regular file"));
  }
  const std::string temporary = absl::StrCat(path, ".tmp");
  DP_RETURN_IF_ERROR(WriteAndSync(temporary, ""));
  return unlink(temporary.c_str()) == 0 ? absl::OkStatus() : FileError(temporary, "remove");
}

}  // namespace dp::trainer

#include "base/data/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/data/inflate.h"
#include "base/file_descriptor.h"

namespace dp::data {
namespace {

absl::Status SystemError(int code, const std::string& path) {
  return absl::ErrnoToStatus(code, absl::StrCat("cannot open ", path));
}

absl::StatusOr<FileBytes> Decompress(absl::Span<const uint8_t> bytes, const std::string& path,
                                     size_t at_least) {
  auto all = Inflate(bytes, Compression::kGzip, at_least);
  if (!all.ok()) {
    return absl::Status(all.status().code(), absl::StrCat(path, ": ", all.status().message()));
  }
  const absl::Span<const uint8_t> view = **all;
  return FileBytes{view, *std::move(all)};
}

}  // namespace

absl::StatusOr<FileBytes> OpenFile(const std::string& path, size_t at_least) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat stat;
  if (!file.valid() || fstat(file.get(), &stat) != 0) return SystemError(errno, path);
  if (S_ISDIR(stat.st_mode)) return SystemError(EISDIR, path);
  const auto size = static_cast<size_t>(stat.st_size);
  if (size == 0) return FileBytes{};
  void* const start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (start == MAP_FAILED) return SystemError(errno, path);
  std::shared_ptr<const void> owner(
      start, [size](const void* memory) { munmap(const_cast<void*>(memory), size); });
  const absl::Span<const uint8_t> bytes(static_cast<const uint8_t*>(start), size);
  if (size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) return Decompress(bytes, path, at_least);
  return FileBytes{bytes, std::move(owner)};
}

absl::Status CheckDataDir(const std::string& dir) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(dir, error);
  if (std::filesystem::is_directory(status)) return absl::OkStatus();
  if (status.type() == std::filesystem::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat(
        "data directory ", dir,
        " does not exist; it must be there on the host of every worker that runs a rank"));
  }
  if (error) return SystemError(error.value(), dir);
  return absl::InvalidArgumentError(
      absl::StrCat("data directory ", dir, " is a file; give the directory that holds it"));
}

}  // namespace dp::data

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace dp::data {

// All bytes of a file. The bytes stay valid while an owner lives.
struct FileBytes {
  absl::Span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;
};

// Maps a file into memory, so that a file may be larger than the memory of the host and processes
// share its pages. A file that begins as gzip does is decompressed into memory instead. Nobody may
// make the file shorter while it is mapped: a read behind the new end kills the process (SIGBUS).
// Reads at least the first `at_least` bytes of a compressed file.
// Errors: the system's if the file cannot be opened or mapped (NotFound, PermissionDenied);
// InvalidArgument bad compression.
absl::StatusOr<FileBytes> OpenFile(const std::string& path, size_t at_least = SIZE_MAX);

// Checks that `dir` is a directory.
// Errors: NotFound it is absent; InvalidArgument it is a file; the system's if nobody can tell.
absl::Status CheckDataDir(const std::string& dir);

}  // namespace dp::data

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Bytes of log files on disk. Each call opens its file anew: streams are many, busy ones few. Any
// thread. Errors: ResourceExhausted the disk is full; Internal; each names the file.

namespace dp::server {

// Writes all of `data`, making the file where there is none.
absl::Status WriteAt(const std::filesystem::path& path, uint64_t offset, absl::string_view data,
                     int more_flags = 0);
// At most `size` bytes: fewer where the file ends.
absl::StatusOr<std::string> ReadAt(const std::filesystem::path& path, uint64_t offset,
                                   uint64_t size);
// Makes the file that long, by a hole at its end or by cutting it, making it where there is none.
absl::Status ResizeFile(const std::filesystem::path& path, uint64_t size);
// Makes a file or the names in a folder durable. One that is not there is in order.
absl::Status SyncPath(const std::filesystem::path& path);
// The same for the names that lead to a file of logs: generation, job, and the folder of all logs.
absl::Status SyncNames(const std::filesystem::path& path);
// Makes a folder of logs with those above it; one that is there is in order.
absl::Status MakeFolder(const std::filesystem::path& path);
// 0 for one that is not there.
absl::StatusOr<uint64_t> SizeOf(const std::filesystem::path& path);

}  // namespace dp::server

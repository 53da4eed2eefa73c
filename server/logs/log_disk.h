#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Reads and writes log files. Each call opens its file anew, because there are many streams, and
// few are busy. Any thread. Errors: ResourceExhausted the disk is full; Internal; each names the
// file.

namespace dp::server {

// Writes all of `data`; makes the file if it is missing.
absl::Status WriteAt(const std::filesystem::path& path, uint64_t offset, absl::string_view data,
                     int more_flags = 0);
// Reads at most `size` bytes; fewer if the file ends before.
absl::StatusOr<std::string> ReadAt(const std::filesystem::path& path, uint64_t offset,
                                   uint64_t size);
// Sets the file's length, by a hole at its end or by cutting; makes the file if it is missing.
absl::Status ResizeFile(const std::filesystem::path& path, uint64_t size);
// Makes a file, or the names in a folder, durable. OK if the path does not exist.
absl::Status SyncPath(const std::filesystem::path& path);
// Makes the names that lead to a log file durable: generation, job, and the folder of all logs.
absl::Status SyncNames(const std::filesystem::path& path);
// Makes a folder of logs and its parents. OK if the folder exists.
absl::Status MakeFolder(const std::filesystem::path& path);
// 0 if the file does not exist.
absl::StatusOr<uint64_t> SizeOf(const std::filesystem::path& path);

}  // namespace dp::server

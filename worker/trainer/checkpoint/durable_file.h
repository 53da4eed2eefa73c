#pragma once

#include <cstdint>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp::trainer {

// Files that exist as a whole after a crash, or not at all. Errors name the path and the system's
// reason.

// Replaces `path` as a whole: writes a temporary file beside it, syncs the file, renames it, and
// syncs the directory.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents);

// WriteFileAtomically in two steps, so that the caller can decide in between with a complete file
// on disk. WriteBeside returns the path of the temporary file: `path` followed by `suffix`.
// Processes that may write at the same time need different suffixes. Both remove the temporary file
// on an error.
absl::StatusOr<std::string> WriteBeside(const std::string& path, absl::string_view contents,
                                        absl::string_view suffix = ".tmp");
absl::Status PutInPlace(const std::string& temporary, const std::string& path);

// Creates or truncates a file, writes it and syncs it, but not its directory.
absl::Status WriteAndSync(const std::string& path, absl::string_view contents);

// Renames and syncs the directory that holds `to`, so that the new name survives a crash.
absl::Status RenameDurably(const std::string& from, const std::string& to);

absl::Status SyncDirectory(const std::string& path);

// Creates the directory and its missing parents, and syncs the parent of each new directory.
absl::Status CreateDirectoriesDurably(const std::string& path);

// "cannot WHAT PATH: REASON".
absl::Status FileError(const std::error_code& error, absl::string_view what,
                       const std::string& path);

// Tries whether WriteFileAtomically, or WriteBeside with `suffix`, could write `path`, without
// touching an existing file. Call it before hours of work. Errors: those of WriteFileAtomically;
// InvalidArgument `path` is a directory or no regular file; NotFound its directory does not exist.
absl::Status CheckWritable(const std::string& path, absl::string_view suffix = ".tmp");

// Reads a whole file. Errors: NotFound; InvalidArgument no regular file; ResourceExhausted larger
// than `bytes_max`; DataLoss the file shrank while it was read.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t bytes_max);
// The same of a file that is open for reading; `path` is for errors.
absl::StatusOr<std::string> ReadOpenFile(int fd, const std::string& path, int64_t bytes_max);

}  // namespace dp::trainer

#pragma once

#include <cstdint>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp::trainer {

// Files that are there as a whole after a crash, or not at all. Errors name the path and the
// system's reason.

// Replaces `path` as a whole: writes a temporary file beside it, syncs it, renames it, syncs the
// directory.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents);

// The same in two parts, so that what is decided in between is decided about a file that is whole.
// Returns the path of the temporary file, `path` with `suffix`: processes that may write at once
// have one each. What cannot be written or put in place as a whole is removed.
absl::StatusOr<std::string> WriteBeside(const std::string& path, absl::string_view contents,
                                        absl::string_view suffix = ".tmp");
absl::Status PutInPlace(const std::string& temporary, const std::string& path);

// Writes a new file, or what is left of one that a crash has cut, and syncs it. Not its directory.
absl::Status WriteAndSync(const std::string& path, absl::string_view contents);

// Renames and syncs the directory that holds `to`, so that the new name survives a crash.
absl::Status RenameDurably(const std::string& from, const std::string& to);

absl::Status SyncDirectory(const std::string& path);

// Makes the directory, and those above it that are missing; syncs what holds each of them.
absl::Status CreateDirectoriesDurably(const std::string& path);

// "cannot WHAT PATH: REASON".
absl::Status FileError(const std::error_code& error, absl::string_view what,
                       const std::string& path);

// Whether `path` can be written that way, tried without touching what is there: before hours of
// work, not after. Errors as WriteFileAtomically; InvalidArgument where it is a directory, NotFound
// where there is none for it.
absl::Status CheckWritable(const std::string& path);

// All of a file. Errors: NotFound; ResourceExhausted larger than `bytes_max`.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t bytes_max);

}  // namespace dp::trainer

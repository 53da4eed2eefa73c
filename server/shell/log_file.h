#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/limits.h"

namespace dp::server {

// One stream's bytes on disk: the file's size is the length of the stream, so that a crash needs no
// other record. Where the job's logs grew past their limit, the stream goes on as a hole in the
// file, and a file beside it, with `.cut` at the end of its name, tells where the hole begins.
//
// Opens its file for each call and keeps no descriptor: streams are many, busy ones few. Not
// thread-safe; owned by LogStore.
class LogFile {
 public:
  // Finds the stream as an earlier life of the process left it; a file that is not there is an
  // empty stream. Errors: Internal names the file.
  static absl::StatusOr<LogFile> Open(const std::filesystem::path& path);

  // Adds bytes at the end. Errors: ResourceExhausted the disk is full; Internal. Open the file anew
  // after an error.
  absl::Status Append(absl::string_view data);
  // Counts `size` bytes as taken without keeping them; everything from the first such byte on is
  // the cut. Errors: as Append.
  absl::Status Skip(uint64_t size);
  // Makes everything so far durable, its name included. Errors: Internal; then what is on disk is
  // not known.
  absl::Status Sync();
  // Reads at most `size` bytes, none beyond the cut. Errors: Internal.
  absl::StatusOr<std::string> Read(uint64_t offset, uint64_t size) const;
  // The offset at which the last `lines` lines before `end` begin. Looks at no more than the last
  // 4 MiB. Errors: as Read.
  absl::StatusOr<uint64_t> TailStart(uint64_t end, int lines) const;

  uint64_t end() const { return end_; }
  // Where the cut begins; end() when there is none.
  uint64_t stored_end() const { return cut_ ? cut_begin_ : end_; }
  bool cut() const { return cut_; }
  // The end of what can be passed on: of the last whole line, or of a line that is too long to wait
  // for.
  uint64_t readable_end() const;

 private:
  explicit LogFile(std::filesystem::path path) : path_(std::move(path)) {}

  absl::Status Recover();
  absl::Status Extend(uint64_t end);

  std::filesystem::path path_;
  uint64_t end_ = 0;
  uint64_t line_begin_ = 0;  // of the last line, which has no end yet
  bool cut_ = false;
  bool name_durable_ = false;  // the directory entries that lead to the file are on disk
  uint64_t cut_begin_ = 0;
};

}  // namespace dp::server

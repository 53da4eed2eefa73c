#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/limits.h"
#include "server/logs/log_chunk.h"
#include "server/logs/log_index.h"

namespace dp::server {

// A missing part of a stream, and why it is missing.
struct LogGap {
  enum class Reason {
    kWorker,   // the worker had no room for it
    kEmptied,  // the rank emptied its file; the gap has at least one byte, counted or not
    kRemoved,  // it was stored here, then removed to make room
  };
  uint64_t begin = 0;
  uint64_t end = 0;
  Reason reason = Reason::kWorker;

  bool operator==(const LogGap&) const = default;
};

// One stream's bytes on disk. The file's size is the length of the stream, so that a crash needs no
// other record. If needed, files of its name and these endings lie beside it:
//    .times   when its lines were found (LogIndex)
//    .gaps    which parts are missing: holes in the file (LogIndex)
//    .cut     where the job's logs grew past their limit: from there on the file is a hole
//
// Opens its files for each call and keeps no descriptor, because there are many streams, and few
// are busy. Not thread-safe; owned by LogStore.
// Errors of calls that write: ResourceExhausted the disk is full; Internal. After an error, open
// the stream anew.
class LogFile {
 public:
  // Opens the stream as an earlier process left it; without a file the stream is empty.
  // Errors: Internal names the file.
  static absl::StatusOr<LogFile> Open(const std::filesystem::path& path);

  // Adds bytes at the end, found at `times`.
  absl::Status Append(absl::string_view data, const std::vector<LogTime>& times = {});
  // Goes on `size` bytes behind the end. The bytes between are missing, and were found at `times`.
  absl::Status AppendGap(uint64_t size, LogGap::Reason reason = LogGap::Reason::kWorker,
                         const std::vector<LogTime>& times = {});
  // Counts `size` bytes as taken without keeping them. Everything from the first such byte on is
  // the cut.
  absl::Status Skip(uint64_t size);
  // Removes the stored bytes, and records all of them as a gap.
  absl::Status Remove();
  // Makes everything so far durable, the file's name included. Errors: Internal; it is then unknown
  // what is on disk.
  absl::Status Sync();

  // Reads at most `size` bytes, none beyond the cut. Bytes of a gap are zeros. Errors: Internal.
  absl::StatusOr<std::string> Read(uint64_t offset, uint64_t size) const;
  // The gap that `offset` is in, or else the next one; null if there is none.
  const LogGap* GapAtOrBehind(uint64_t offset) const;
  // The offset at which the last `lines` lines before `end` begin. Looks at the last 4 MiB at most,
  // and not beyond the last gap. Errors: as Read.
  absl::StatusOr<uint64_t> TailStart(uint64_t end, int lines) const;
  // The offset of the first line that was found at `time` or later; `end` if no such line begins
  // before `end`. Errors: as Read.
  absl::StatusOr<uint64_t> Since(absl::Time time, uint64_t end) const;
  // When the lines that begin in [begin, end) were found. Errors: as Read.
  absl::StatusOr<std::vector<LogTime>> Times(uint64_t begin, uint64_t end) const;

  uint64_t end() const { return end_; }
  // Where the cut begins; end() if there is none.
  uint64_t stored_end() const { return cut_ ? cut_begin_ : end_; }
  bool cut() const { return cut_; }
  // Where the bytes end that readers get: at the end of the last whole line. The line behind it is
  // included if it has a carriage return, as progress bars have, or is too long to wait for.
  uint64_t readable_end() const;
  // The approximate size on disk.
  uint64_t disk_bytes() const;

 private:
  explicit LogFile(std::filesystem::path path);

  absl::Status RecoverCut();
  absl::Status RecoverGaps();
  absl::Status RecoverLine();
  // `data` are the stream's bytes from `begin` on.
  void ReadLine(absl::string_view data, uint64_t begin);
  absl::Status NoteGap(const LogGap& gap);
  // Adds the gap; merges it with the last one if they touch and have the same reason.
  void AddGap(const LogGap& gap);

  std::filesystem::path path_;
  uint64_t end_ = 0;
  uint64_t line_begin_ = 0;    // of the last line, which has no end yet
  bool line_returns_ = false;  // the last line has a carriage return
  bool cut_ = false;
  bool name_durable_ = false;  // the directory entries that lead to the file are on disk
  uint64_t cut_begin_ = 0;
  LogIndex times_;
  LogIndex gap_index_;
  std::vector<LogGap> gaps_;  // those of gap_index_; neighbours of one reason are merged
};

}  // namespace dp::server

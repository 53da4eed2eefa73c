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
#include "server/shell/log_chunk.h"
#include "server/shell/log_index.h"

namespace dp::server {

// A part of a stream that is missing, and why.
struct LogGap {
  enum class Reason {
    kWorker,   // the worker had no room for it
    kEmptied,  // the rank has emptied its file of it; it counts one byte more than is known
    kRemoved,  // it was stored here, and had to make room
  };
  uint64_t begin = 0;
  uint64_t end = 0;
  Reason reason = Reason::kWorker;

  bool operator==(const LogGap&) const = default;
};

// One stream's bytes on disk: the file's size is the length of the stream, so that a crash needs no
// other record. Beside it, where there is something to tell, lie files of its name and
//   .times   when its lines were found (LogIndex)
//   .gaps    which parts are missing: holes in the file (LogIndex)
//   .cut     where the job's logs grew past their limit: from there on the file is a hole
//
// Opens its files for each call and keeps no descriptor: streams are many, busy ones few. Not
// thread-safe; owned by LogStore.
// Errors of what writes: ResourceExhausted the disk is full; Internal. After one, open it anew.
class LogFile {
 public:
  // Finds the stream as an earlier life of the process left it; a file that is not there is an
  // empty stream. Errors: Internal names the file.
  static absl::StatusOr<LogFile> Open(const std::filesystem::path& path);

  // Adds bytes at the end, found at `times`.
  absl::Status Append(absl::string_view data, const std::vector<LogTime>& times = {});
  // Goes on `size` bytes behind the end: those between are missing, and were found at `times`.
  absl::Status AppendGap(uint64_t size, LogGap::Reason reason = LogGap::Reason::kWorker,
                         const std::vector<LogTime>& times = {});
  // Counts `size` bytes as taken without keeping them; everything from the first such byte on is
  // the cut.
  absl::Status Skip(uint64_t size);
  // Gives up what is stored, but not that it was: all of it becomes a gap.
  absl::Status Remove();
  // Makes everything so far durable, its name included. Errors: Internal; then what is on disk is
  // not known.
  absl::Status Sync();

  // Reads at most `size` bytes, none beyond the cut; those of a gap are zeros. Errors: Internal.
  absl::StatusOr<std::string> Read(uint64_t offset, uint64_t size) const;
  // The gap that `offset` is in, or the next one behind it; null where there is none.
  const LogGap* GapAtOrBehind(uint64_t offset) const;
  // The offset at which the last `lines` lines before `end` begin. Looks at no more than the last
  // 4 MiB, and not beyond the last gap. Errors: as Read.
  absl::StatusOr<uint64_t> TailStart(uint64_t end, int lines) const;
  // Where the first line begins that was found at `time` or later; `end` where that is none before
  // it. Errors: as Read.
  absl::StatusOr<uint64_t> Since(absl::Time time, uint64_t end) const;
  // When the lines that begin in [begin, end) were found. Errors: as Read.
  absl::StatusOr<std::vector<LogTime>> Times(uint64_t begin, uint64_t end) const;

  uint64_t end() const { return end_; }
  // Where the cut begins; end() when there is none.
  uint64_t stored_end() const { return cut_ ? cut_begin_ : end_; }
  bool cut() const { return cut_; }
  // The end of what can be passed on: of the last whole line, or of all where the line behind it
  // has a carriage return, as progress bars have, or is too long to wait for.
  uint64_t readable_end() const;
  // What it takes on disk, about.
  uint64_t disk_bytes() const;

 private:
  explicit LogFile(std::filesystem::path path);

  absl::Status RecoverCut();
  absl::Status RecoverGaps();
  absl::Status RecoverLine();
  // `data` is what the stream has from `begin` on.
  void ReadLine(absl::string_view data, uint64_t begin);
  absl::Status NoteGap(const LogGap& gap);
  // One that begins where the last one ends is told as a part of it.
  void AddGap(const LogGap& gap);

  std::filesystem::path path_;
  uint64_t end_ = 0;
  uint64_t line_begin_ = 0;    // of the last line, which has no end yet
  bool line_returns_ = false;  // it has a carriage return
  bool cut_ = false;
  bool name_durable_ = false;  // the directory entries that lead to the file are on disk
  uint64_t cut_begin_ = 0;
  LogIndex times_;
  LogIndex gap_index_;
  std::vector<LogGap>
      gaps_;  // those of gap_index_; neighbours of one reason are one here, but for kEmptied
};

}  // namespace dp::server

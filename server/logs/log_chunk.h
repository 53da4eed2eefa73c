#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"

// The input and output of the log store. A stream is the bytes of one rank of one generation on one
// descriptor; a position is an offset in it.

namespace dp::server {

struct LogStreamKey {
  enum class Kind { kStdout, kStderr, kMetrics };
  Generation generation;
  int rank = 0;
  Kind kind = Kind::kStdout;

  auto operator<=>(const LogStreamKey&) const = default;
};

struct LogPosition {
  LogStreamKey stream;
  uint64_t offset = 0;

  bool operator==(const LogPosition&) const = default;
};

// The bytes from `offset` on, up to the next LogTime's, were found at `time`.
struct LogTime {
  uint64_t offset = 0;
  absl::Time time;

  bool operator==(const LogTime&) const = default;
};

struct LogChunk {
  LogStreamKey stream;
  uint64_t offset = 0;
  std::string data;
  std::vector<LogTime> times = {};  // ascending
  // Above 0: this many bytes from `offset` on are missing. `data` is then empty; for a reader it
  // holds a line that says so.
  uint64_t cut_bytes = 0;
  // From a worker: true if the rank emptied its file of these bytes, false if the worker had no
  // room. If true, `cut_bytes` is one more than the number of bytes known to be missing.
  bool emptied = false;
  // For a reader: where the rank ran; empty: unknown.
  std::string host = {};

  bool operator==(const LogChunk&) const = default;
};

// A rank's output besides its bytes: where it comes from, and whether all of it has arrived.
struct RankOutput {
  Generation generation;
  int rank = 0;
  std::string worker;
  std::string host;
  // The path on that host of output that is not stored yet. Empty: the daemon does not report when
  // the output is whole.
  std::string spool;
  bool whole = false;  // nothing more will come

  bool operator==(const RankOutput&) const = default;
};

// One request of a worker.
struct LogBatch {
  std::vector<LogChunk> chunks;
  std::vector<RankOutput> ranks = {};
};

// Selects what to read of a job's logs.
struct LogQuery {
  std::vector<LogStreamKey::Kind> kinds;  // empty: standard output and error
  std::vector<int> ranks;                 // empty: all
  std::vector<LogPosition> from;          // a stream that is not listed starts at its first byte,
  int tail_lines = 0;                     // or, if this is above 0, at its last so many lines
  Generation generation;                  // only this one; invalid: all
  Generation since_generation;            // only this one and later ones
  bool finished = false;  // no more bytes come: a last line without a newline counts
  // A stream that is not in `from` starts at its first line found at or after this time, and not
  // before its last `tail_lines`. Lines of unknown time count as older.
  absl::Time since = absl::InfinitePast();
  bool with_times = false;  // in the chunks of the page
  bool without_lines = false;

  bool operator==(const LogQuery&) const = default;
};

// A rank that has exited or was lost, and whose output may not all have arrived.
struct OutstandingOutput {
  RankOutput of;
  uint64_t stored_bytes = 0;  // of the streams that the query selects
};

inline constexpr size_t kOutstandingMax = 100;

struct LogPage {
  std::vector<LogChunk> chunks;
  std::vector<LogPosition> next;  // of every stream that the query selects
  bool exhausted = false;         // no bytes are left after `next`
  uint64_t version = 0;           // of the job's logs, when they were read
  // For a finished query at its end: at most kOutstandingMax ranks, and how many there are.
  std::vector<OutstandingOutput> outstanding;
  size_t outstanding_ranks = 0;
};

}  // namespace dp::server

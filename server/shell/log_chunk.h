#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"

// What the log store takes and gives. A stream is the bytes of one rank of one generation on one
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

struct LogChunk {
  LogStreamKey stream;
  uint64_t offset = 0;
  std::string data;

  bool operator==(const LogChunk&) const = default;
};

// What to read of a job.
struct LogQuery {
  std::vector<LogStreamKey::Kind> kinds;  // empty: standard output and error
  std::vector<int> ranks;                 // empty: all
  std::vector<LogPosition> from;          // a stream that is not named starts at its first byte,
  int tail_lines = 0;                     // or, above 0, at the last so many lines
  Generation generation;                  // only this one; not valid: all
  Generation since_generation;            // only this one and later ones
  bool finished = false;                  // no more bytes come: a last line without end counts
};

struct LogPage {
  std::vector<LogChunk> chunks;
  std::vector<LogPosition> next;  // of every stream that the query selects
  bool exhausted = false;         // nothing is left behind `next`
  uint64_t version = 0;           // of the job's logs, when they were read
};

}  // namespace dp::server

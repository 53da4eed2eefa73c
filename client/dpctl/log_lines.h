#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "dp/v1/logs.pb.h"

namespace dp::ctl {

// One line of one stream, without its line break.
struct LogLine {
  uint64_t generation = 0;
  int rank = 0;
  v1::LogStream stream = v1::LOG_STREAM_STDOUT;
  std::string text;
  // When its worker found it in the rank's file.
  std::optional<absl::Time> time = std::nullopt;
  // Above 0: so many bytes are missing here, and the text says so.
  uint64_t cut_bytes = 0;
  std::string host = {};  // that its rank ran on; empty: not known
};

// Cuts what streams bring into lines, in the order it came. A line that never ends is cut at
// kWholeLineBytesMax; one before missing bytes ends there. Not thread-safe.
class LogLines {
 public:
  // The lines that are complete with `chunk`.
  std::vector<LogLine> Add(const v1::LogChunk& chunk);
  // What is left of each stream at its end.
  std::vector<LogLine> Rest();

 private:
  struct Stream {
    uint64_t generation;
    int rank;
    v1::LogStream stream;
    auto operator<=>(const Stream&) const = default;
  };
  // Of a line that has no end yet.
  struct Open {
    std::string text;
    std::optional<absl::Time> time;
    std::string host;
  };
  static LogLine Close(const Stream& stream, Open& open);

  std::map<Stream, Open> open_;
};

}  // namespace dp::ctl

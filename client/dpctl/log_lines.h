#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dp/v1/logs.pb.h"

namespace dp::ctl {

// One line of one stream, without its line break.
struct LogLine {
  uint64_t generation = 0;
  int rank = 0;
  v1::LogStream stream = v1::LOG_STREAM_STDOUT;
  std::string text;
};

// Cuts what streams bring into lines, in the order it came. A line that never ends is cut at
// kWholeLineBytesMax. Not thread-safe.
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

  std::map<Stream, std::string> open_;
};

}  // namespace dp::ctl

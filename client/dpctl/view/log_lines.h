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

// One line of one stream, without its line break; or a piece of a line.
struct LogLine {
  struct Stream {
    uint64_t generation = 0;
    int rank = 0;
    v1::LogStream stream = v1::LOG_STREAM_STDOUT;
    auto operator<=>(const Stream&) const = default;
  };
  enum class End {
    kLineBreak,
    kContinued,  // more of this line follows, as the next LogLine of its stream
    kStreamEnd,  // nothing follows: the rank wrote no line break
  };

  uint64_t generation = 0;
  int rank = 0;
  v1::LogStream stream = v1::LOG_STREAM_STDOUT;
  std::string text;
  // When the worker found it in the rank's file.
  std::optional<absl::Time> time = std::nullopt;
  // Above 0: this many bytes are missing here, and the text says so.
  uint64_t cut_bytes = 0;
  std::string host = {};  // of the rank; empty: unknown
  End end = End::kLineBreak;
  bool rest = false;  // a piece of the line came before

  Stream of() const { return {generation, rank, stream}; }
};

// Cuts chunks of streams into lines, in the order of arrival. A line that grows past
// kWholeLineBytesMax comes in pieces; a line before missing bytes ends there. Not thread-safe.
class LogLines {
 public:
  // When to show a line that has a carriage return and no end yet, as progress bars have.
  enum class Bars {
    kAtOnce,  // in pieces, one for each chunk that has a part of it
    kWhole,   // at its end, as any line
  };
  explicit LogLines(Bars bars = Bars::kAtOnce) : bars_(bars) {}

  // The lines that `chunk` completes, and pieces.
  std::vector<LogLine> Add(const v1::LogChunk& chunk);
  // The rest of each stream at its end.
  std::vector<LogLine> Rest();

 private:
  using Stream = LogLine::Stream;
  // A line without its end.
  struct Open {
    std::string text;  // not given yet
    std::optional<absl::Time> time;
    std::string host;
    bool given = false;    // a piece was given
    bool returns = false;  // it has a carriage return
  };
  static LogLine Close(const Stream& stream, Open& open, LogLine::End end);

  const Bars bars_;
  std::map<Stream, Open> open_;
};

}  // namespace dp::ctl

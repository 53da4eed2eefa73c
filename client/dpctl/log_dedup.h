#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/time/time.h"
#include "client/dpctl/log_lines.h"

namespace dp::ctl {

// One line that several ranks wrote.
struct SharedLine {
  LogLine line;         // as it came first
  std::set<int> ranks;  // all that wrote it
};

// Puts equal lines of many ranks together. A line is held until every rank has written it, or for
// at most `hold`; what a rank writes later counts as another line. Lines of different ranks may
// change places; those of one stream of one rank always leave in the order that it wrote them: a
// line joins the first equal one behind what its stream last shared with another, and what it wrote
// alone since then moves before that. Nothing is lost or told twice: each line of each rank is in
// exactly one SharedLine. Not thread-safe.
class LogDedup {
 public:
  // `ranks`: how many can write a line. Holds no more than `lines_max` and about `bytes_max`.
  LogDedup(size_t ranks, absl::Duration hold, size_t lines_max = 1 << 16,
           size_t bytes_max = 32 << 20)
      : ranks_(ranks), hold_(hold), lines_max_(lines_max), bytes_max_(bytes_max) {}

  void Add(LogLine line, absl::Time now);
  // Those that need not be held any more.
  std::vector<SharedLine> Take(absl::Time now);
  // All that are held.
  std::vector<SharedLine> TakeAll();

  // When Take is to be asked again though nothing was added; for ever where nothing is held.
  absl::Time next_at() const;

 private:
  // Places order the held lines. Appended ones are far apart, so that others can move between.
  using Place = absl::uint128;
  struct Held {
    SharedLine shared;
    absl::Time until;  // never before that of a line in front
  };
  using Lines = std::map<Place, Held>;
  // One stream of one rank; known while any of its lines is held.
  struct Writer {
    std::set<Place> lines;  // that are held
    Place anchor = 0;       // its last one that another wrote too
  };
  using WriterKey = std::tuple<uint64_t, v1::LogStream, int>;     // generation, stream, rank
  using Text = std::tuple<uint64_t, v1::LogStream, std::string>;  // of a generation and a stream

  static Text TextOf(const LogLine& line);
  bool Due(const Held& held, absl::Time now) const;
  SharedLine TakeFirst();
  // An equal line that `line` of `writer` may join; the end where there is none.
  Lines::iterator FindEqual(const LogLine& line, const Writer& writer);
  // Moves what `writer` wrote behind `line`, all of it alone, to just before. False, and nothing
  // is moved, where there is no room.
  bool MoveBefore(Lines::iterator line, Writer& writer);
  void Move(Place from, Place to, absl::Time until, Writer& writer);
  void Join(Lines::iterator shared, int rank, Writer& writer);
  void Append(LogLine line, Writer& writer, absl::Time now);

  const size_t ranks_;
  const absl::Duration hold_;
  const size_t lines_max_;
  const size_t bytes_max_;
  Lines held_;
  Place taken_ = 0;  // of the line that was taken last: in front of all that are held
  Place last_ = 0;   // of the line that was appended last: no other is behind it
  size_t bytes_ = 0;
  std::map<Text, std::set<Place>> places_;  // of held lines
  std::map<WriterKey, Writer> writers_;
};

// "0-3,5".
std::string FormatRanks(const std::set<int>& ranks);

}  // namespace dp::ctl

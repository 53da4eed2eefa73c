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
#include "client/dpctl/view/log_lines.h"

namespace dp::ctl {

// One line that several ranks wrote.
struct SharedLine {
  LogLine line;         // the one that came first
  std::set<int> ranks;  // all that wrote it
};

// Merges equal lines of many ranks. A line is held until every rank has written it, or for at most
// `hold`; a rank's later line counts as another line. Lines of different ranks may change places;
// lines of one stream of one rank always leave in the order in which the rank wrote them.
//
// A line joins the first equal line behind the last shared line of its stream. Lines that its
// stream wrote alone since then move before the joined line. Nothing is lost or repeated: each line
// of each rank is in exactly one SharedLine. Not thread-safe.
class LogDedup {
 public:
  // `ranks`: how many can write a line. Holds at most `lines_max` lines and about `bytes_max`
  // bytes.
  LogDedup(size_t ranks, absl::Duration hold, size_t lines_max = 1 << 16,
           size_t bytes_max = 32 << 20)
      : ranks_(ranks), hold_(hold), lines_max_(lines_max), bytes_max_(bytes_max) {}

  void Add(LogLine line, absl::Time now);
  // Takes the lines that need not be held any longer.
  std::vector<SharedLine> Take(absl::Time now);
  // Takes all held lines.
  std::vector<SharedLine> TakeAll();

  // When to call Take again if nothing is added; never if nothing is held.
  absl::Time next_at() const;

 private:
  // Places order the held lines. Appended lines are far apart, so that others can move between
  // them.
  using Place = absl::uint128;
  struct Held {
    SharedLine shared;
    absl::Time until;  // never before that of an earlier line
  };
  using Lines = std::map<Place, Held>;
  // One stream of one rank; exists while any of its lines is held.
  struct Writer {
    std::set<Place> lines;  // the held ones
    Place anchor = 0;       // its last line that another rank wrote too
  };
  using WriterKey = std::tuple<uint64_t, v1::LogStream, int>;     // generation, stream, rank
  using Text = std::tuple<uint64_t, v1::LogStream, std::string>;  // generation, stream, text

  static Text TextOf(const LogLine& line);
  bool Due(const Held& held, absl::Time now) const;
  SharedLine TakeFirst();
  // An equal line that `line` of `writer` may join; the end if there is none.
  Lines::iterator FindEqual(const LogLine& line, const Writer& writer);
  // Moves the lines of `writer` behind `line`, none of them shared, to just before `line`. Returns
  // false, and moves nothing, if there is no room.
  bool MoveBefore(Lines::iterator line, Writer& writer);
  void Move(Place from, Place to, absl::Time until, Writer& writer);
  void Join(Lines::iterator shared, int rank, Writer& writer);
  void Append(LogLine line, Writer& writer, absl::Time now);

  const size_t ranks_;
  const absl::Duration hold_;
  const size_t lines_max_;
  const size_t bytes_max_;
  Lines held_;
  Place taken_ = 0;  // of the line taken last, before all held lines
  Place last_ = 0;   // of the line appended last, behind all others
  size_t bytes_ = 0;
  std::map<Text, std::set<Place>> places_;  // of held lines
  std::map<WriterKey, Writer> writers_;
};

// "0-3,5".
std::string FormatRanks(const std::set<int>& ranks);

}  // namespace dp::ctl

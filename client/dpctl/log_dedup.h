#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "client/dpctl/log_lines.h"

namespace dp::ctl {

// One line that several ranks wrote.
struct SharedLine {
  LogLine line;         // as it came first
  std::set<int> ranks;  // all that wrote it
};

// Puts equal lines of many ranks together. A line is held until every rank has written it, or for
// `hold`; what a rank writes later counts as another line. Lines leave in the order in which they
// came first, and those of one stream of one rank always in the order that it wrote them: a line
// joins an equal one only behind what its own stream wrote last. So nothing is lost or told twice:
// each line of each rank is in exactly one SharedLine. Not thread-safe.
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
  struct Held {
    SharedLine shared;
    absl::Time until;
  };
  using Text = std::tuple<uint64_t, v1::LogStream, std::string>;  // with generation and stream
  using Writer = std::tuple<uint64_t, v1::LogStream, int>;        // a rank

  static Text TextOf(const LogLine& line);
  bool Due(const Held& held, absl::Time now) const;
  SharedLine TakeFirst();
  // The held line that `line` joins, by number; or that of the next.
  uint64_t PlaceFor(const LogLine& line) const;

  const size_t ranks_;
  const absl::Duration hold_;
  const size_t lines_max_;
  const size_t bytes_max_;
  std::deque<Held> held_;
  uint64_t first_ = 0;  // the number of held_.front(); they count on for ever
  size_t bytes_ = 0;
  std::map<Text, std::set<uint64_t>> numbers_;  // of held lines
  std::map<Writer, uint64_t> behind_;           // the number behind its last line
};

// "0-3,5".
std::string FormatRanks(const std::set<int>& ranks);

}  // namespace dp::ctl

#include "client/dpctl/view/log_dedup.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::ctl {
namespace {

// Distance between appended lines; 2^64 of them can follow each other.
constexpr absl::uint128 kSpacing = absl::MakeUint128(1, 0);
// Lines that move between two others take so small a part of the room there because more will
// follow. If every rank has own lines before a shared one, the room lasts for tens of thousands of
// ranks.
constexpr int kPartOfRoom = 1024;
// How many equal lines behind a writer's anchor are tried; any further ones are the writer's own.
constexpr int kEqualLinesMax = 64;

}  // namespace

void LogDedup::Add(LogLine line, absl::Time now) {
  const int rank = line.rank;
  Writer& writer = writers_[{line.generation, line.stream, rank}];
  const auto equal = FindEqual(line, writer);
  if (equal == held_.end() || !MoveBefore(equal, writer)) {
    Append(std::move(line), writer, now);
  } else {
    Join(equal, rank, writer);
  }
}

LogDedup::Lines::iterator LogDedup::FindEqual(const LogLine& line, const Writer& writer) {
  const auto places = places_.find(TextOf(line));
  if (places == places_.end()) return held_.end();
  auto place = places->second.upper_bound(writer.anchor);
  for (int i = 0; i < kEqualLinesMax && place != places->second.end(); ++i, ++place) {
    const auto held = held_.find(*place);
    if (!held->second.shared.ranks.contains(line.rank)) return held;
  }
  return held_.end();
}

bool LogDedup::MoveBefore(Lines::iterator line, Writer& writer) {
  const std::vector<Place> behind(writer.lines.upper_bound(line->first), writer.lines.end());
  if (behind.empty()) return true;
  const Place front = line == held_.begin() ? taken_ : std::prev(line)->first;
  const Place room = line->first - front - 1;
  if (behind.size() > room) return false;
  const Place step =
      std::max<Place>(1, std::min<Place>(room / kPartOfRoom, room / (2 * behind.size())));
  Place to = front;
  for (const Place from : behind) Move(from, to += step, line->second.until, writer);
  return true;
}

void LogDedup::Move(Place from, Place to, absl::Time until, Writer& writer) {
  auto node = held_.extract(from);
  node.key() = to;
  node.mapped().until = until;
  std::set<Place>& places = places_[TextOf(node.mapped().shared.line)];
  places.erase(from);
  places.insert(to);
  writer.lines.erase(from);
  writer.lines.insert(to);
  held_.insert(std::move(node));
}

void LogDedup::Join(Lines::iterator shared, int rank, Writer& writer) {
  const auto& [place, held] = *shared;
  const LogLine& line = held.shared.line;
  std::set<int>& ranks = shared->second.shared.ranks;
  if (ranks.size() == 1) {
    Writer& first = writers_[{line.generation, line.stream, *ranks.begin()}];
    first.anchor = std::max(first.anchor, place);
  }
  ranks.insert(rank);
  writer.lines.insert(place);
  writer.anchor = place;
}

void LogDedup::Append(LogLine line, Writer& writer, absl::Time now) {
  last_ += kSpacing;
  places_[TextOf(line)].insert(last_);
  writer.lines.insert(last_);
  bytes_ += line.text.size();
  const int rank = line.rank;
  held_.emplace_hint(held_.end(), last_, Held{{std::move(line), {rank}}, now + hold_});
}

std::vector<SharedLine> LogDedup::Take(absl::Time now) {
  std::vector<SharedLine> lines;
  while (!held_.empty() && Due(held_.begin()->second, now)) lines.push_back(TakeFirst());
  return lines;
}

std::vector<SharedLine> LogDedup::TakeAll() {
  std::vector<SharedLine> lines;
  while (!held_.empty()) lines.push_back(TakeFirst());
  return lines;
}

absl::Time LogDedup::next_at() const {
  return held_.empty() ? absl::InfiniteFuture() : held_.begin()->second.until;
}

bool LogDedup::Due(const Held& held, absl::Time now) const {
  return held.shared.ranks.size() >= ranks_ || now >= held.until || held_.size() > lines_max_ ||
         bytes_ > bytes_max_;
}

SharedLine LogDedup::TakeFirst() {
  auto node = held_.extract(held_.begin());
  taken_ = node.key();
  SharedLine first = std::move(node.mapped().shared);
  bytes_ -= first.line.text.size();
  const auto places = places_.find(TextOf(first.line));
  places->second.erase(taken_);
  if (places->second.empty()) places_.erase(places);
  for (const int rank : first.ranks) {
    const auto writer = writers_.find({first.line.generation, first.line.stream, rank});
    writer->second.lines.erase(taken_);
    if (writer->second.lines.empty()) writers_.erase(writer);
  }
  return first;
}

LogDedup::Text LogDedup::TextOf(const LogLine& line) {
  return {line.generation, line.stream, line.text};
}

std::string FormatRanks(const std::set<int>& ranks) {
  std::string text;
  for (auto rank = ranks.begin(); rank != ranks.end();) {
    const int first = *rank;
    int last = first;
    while (++rank != ranks.end() && *rank == last + 1) last = *rank;
    absl::StrAppend(&text, text.empty() ? "" : ",", first);
    if (last > first) absl::StrAppend(&text, "-", last);
  }
  return text;
}

}  // namespace dp::ctl

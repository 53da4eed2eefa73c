#include "client/dpctl/log_dedup.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::ctl {

void LogDedup::Add(LogLine line, absl::Time now) {
  const uint64_t place = PlaceFor(line);
  const int rank = line.rank;
  behind_[{line.generation, line.stream, rank}] = place + 1;
  if (place == first_ + held_.size()) {
    numbers_[TextOf(line)].insert(place);
    bytes_ += line.text.size();
    held_.push_back({{std::move(line), {}}, now + hold_});
  }
  held_[place - first_].shared.ranks.insert(rank);
}

uint64_t LogDedup::PlaceFor(const LogLine& line) const {
  const uint64_t next = first_ + held_.size();
  const auto numbers = numbers_.find(TextOf(line));
  if (numbers == numbers_.end()) return next;
  const auto behind = behind_.find({line.generation, line.stream, line.rank});
  const uint64_t from = behind == behind_.end() ? first_ : behind->second;
  const auto number = numbers->second.lower_bound(from);
  return number == numbers->second.end() ? next : *number;
}

std::vector<SharedLine> LogDedup::Take(absl::Time now) {
  std::vector<SharedLine> lines;
  while (!held_.empty() && Due(held_.front(), now)) lines.push_back(TakeFirst());
  return lines;
}

std::vector<SharedLine> LogDedup::TakeAll() {
  std::vector<SharedLine> lines;
  while (!held_.empty()) lines.push_back(TakeFirst());
  return lines;
}

absl::Time LogDedup::next_at() const {
  return held_.empty() ? absl::InfiniteFuture() : held_.front().until;
}

bool LogDedup::Due(const Held& held, absl::Time now) const {
  return held.shared.ranks.size() >= ranks_ || now >= held.until || held_.size() > lines_max_ ||
         bytes_ > bytes_max_;
}

SharedLine LogDedup::TakeFirst() {
  SharedLine first = std::move(held_.front().shared);
  held_.pop_front();
  bytes_ -= first.line.text.size();
  const auto numbers = numbers_.find(TextOf(first.line));
  numbers->second.erase(first_++);
  if (numbers->second.empty()) numbers_.erase(numbers);
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

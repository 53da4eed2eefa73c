#include "worker/agent/spool/log_times.h"

#include <algorithm>

namespace dp::worker {
namespace {

// The entry that holds at `offset`; if there is none, the first one behind it.
auto HoldingAt(const std::vector<LogTime>& times, uint64_t offset) {
  const auto behind =
      std::upper_bound(times.begin(), times.end(), offset,
                       [](uint64_t at, const LogTime& each) { return at < each.offset; });
  return behind == times.begin() ? behind : behind - 1;
}

}  // namespace

void LogTimes::Add(uint64_t offset, absl::Time time) {
  times_.push_back({offset, time});
  if (times_.size() <= max_) return;
  size_t kept = 0;
  for (size_t i = 0; i < times_.size(); i += 2) times_[kept++] = times_[i];
  times_.resize(kept);
}

void LogTimes::ForgetBefore(uint64_t offset) {
  times_.erase(times_.begin(), HoldingAt(times_, offset));
}

std::vector<LogTime> LogTimes::Of(uint64_t begin, uint64_t end) const {
  std::vector<LogTime> of;
  for (auto each = HoldingAt(times_, begin); each != times_.end() && each->offset < end; ++each) {
    of.push_back({std::max(each->offset, begin), each->time});
  }
  return of;
}

}  // namespace dp::worker

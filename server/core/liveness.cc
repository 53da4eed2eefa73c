#include "server/core/liveness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace dp::core {

Liveness::Liveness(absl::Duration lease) : lease_(lease) {}

void Liveness::Hear(WorkerId worker, Incarnation incarnation, absl::Time now) {
  heard_[worker] = {incarnation, now};
}

void Liveness::Expect(WorkerId worker, Incarnation incarnation, absl::Time now) {
  heard_[worker] = {incarnation, now + kReturnsWithin};
}

void Liveness::Forget(WorkerId worker) {
  const auto it = heard_.find(worker);
  if (it != heard_.end()) it->second.watched = false;
}

std::vector<LoseWorker> Liveness::Overdue(absl::Time now) {
  const bool stood_still =
      looked_at_.has_value() && (now < *looked_at_ || now - *looked_at_ > lease_ / 2);
  looked_at_ = now;
  std::vector<LoseWorker> overdue;
  for (auto& [worker, heard] : heard_) {
    if (!heard.watched) continue;
    if (stood_still) heard.at = std::max(heard.at, now);
    const absl::Duration silence = now - heard.at;
    if (silence <= lease_) continue;
    const absl::Duration shown = absl::Trunc(silence, absl::Milliseconds(100));
    overdue.push_back({worker, heard.incarnation,
                       absl::StrCat("no heartbeat for ", absl::FormatDuration(shown))});
  }
  return overdue;
}

std::optional<absl::Duration> Liveness::silent_for(WorkerId worker, absl::Time now) const {
  const auto it = heard_.find(worker);
  if (it == heard_.end()) return std::nullopt;
  return std::max(now - it->second.at, absl::ZeroDuration());
}

}  // namespace dp::core

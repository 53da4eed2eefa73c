#include "server/core/liveness.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::core {

Liveness::Liveness(absl::Duration lease) : lease_(lease) {}

void Liveness::Hear(WorkerId worker, Incarnation incarnation, absl::Time now) {
  heard_[worker] = {incarnation, now};
}

void Liveness::Expect(WorkerId worker, Incarnation incarnation, absl::Time now) {
  heard_[worker] = {incarnation, now + kReturnsWithin};
}

void Liveness::Leave(WorkerId worker) {
  const auto it = heard_.find(worker);
  if (it != heard_.end()) it->second.leaving = true;
}

void Liveness::Forget(WorkerId worker) {
  const auto it = heard_.find(worker);
  if (it != heard_.end()) it->second.watched = false;
}

std::vector<LoseWorker> Liveness::Overdue(absl::Time now) {
  const bool stood_still =
      looked_at_.has_value() && (now < *looked_at_ || now - *looked_at_ > lease_ / 2);
  if (stood_still) awake_since_ = now;
  looked_at_ = now;
  std::vector<LoseWorker> overdue;
  for (auto& [worker, heard] : heard_) {
    if (heard.watched && stood_still) heard.at = std::max(heard.at, now);
    if (const auto verdict = Verdict(worker, heard, now)) overdue.push_back(*verdict);
  }
  const bool held = std::exchange(held_back_, 0) > 0;
  if (overdue.empty() || !MostAreSilent(now)) {
    if (!held) return overdue;
    Excuse(now);
    return {};
  }
  std::erase_if(overdue, [&](const LoseWorker& verdict) {
    const Heard& heard = heard_.at(verdict.worker);
    return !heard.leaving && now - heard.at <= kHoldMax;
  });
  if (overdue.empty()) held_back_ = CountSilent(now);
  return overdue;
}

void Liveness::Excuse(absl::Time now) {
  for (auto& [worker, heard] : heard_) {
    const bool silent = now - heard.at > lease_ / 2;
    if (heard.counts() && silent) heard.at = now + kReturnsWithin;
  }
}

std::optional<LoseWorker> Liveness::Verdict(WorkerId worker, const Heard& heard,
                                            absl::Time now) const {
  const absl::Duration silence = now - heard.at;
  if (!heard.watched || silence <= lease_) return std::nullopt;
  const absl::Duration shown = absl::Trunc(silence, absl::Milliseconds(100));
  return LoseWorker{worker, heard.incarnation,
                    absl::StrCat("no heartbeat for ", absl::FormatDuration(shown))};
}

// Those that have missed a heartbeat count already: where all fall silent in one moment, the leases
// run out one after the other.
size_t Liveness::CountSilent(absl::Time now) const {
  return std::count_if(heard_.begin(), heard_.end(), [&](const auto& each) {
    return each.second.counts() && now - each.second.at > lease_ / 2;
  });
}

bool Liveness::MostAreSilent(absl::Time now) const {
  const size_t watched = std::count_if(heard_.begin(), heard_.end(),
                                       [](const auto& each) { return each.second.counts(); });
  return watched >= kCrowd && CountSilent(now) * 2 > watched;
}

bool Liveness::lapsed(WorkerId worker, absl::Time now) const {
  const auto it = heard_.find(worker);
  return it != heard_.end() && now - it->second.at > lease_;
}

std::optional<absl::Duration> Liveness::silent_for(WorkerId worker, absl::Time now) const {
  const auto it = heard_.find(worker);
  if (it == heard_.end()) return std::nullopt;
  return std::max(now - it->second.at, absl::ZeroDuration());
}

}  // namespace dp::core

#include "server/policy/liveness.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/timeouts.h"
#include "server/core/coordinator.h"

namespace dp::core {
namespace {

// A lease has expired once more than its term has passed.
constexpr absl::Duration kPast = absl::Milliseconds(1);
// Half a lease without a look means that the coordinator stood still; twice as often leaves time
// for a slow disk.
constexpr int kLooksPerLease = 4;

std::set<WorkerId> Listed(const Coordinator& coordinator) {
  std::set<WorkerId> listed;
  for (const auto& [id, worker] : coordinator.state().workers.by_id()) {
    listed.insert(listed.end(), id);
  }
  return listed;
}

}  // namespace

Liveness::Liveness(absl::Duration lease) : lease_(lease), shortest_(lease) {}

Liveness::Heard& Liveness::LifeOf(WorkerId worker, Incarnation incarnation) {
  const Heard fresh{incarnation, absl::InfinitePast(), lease_, {lease_}};
  Heard& heard = heard_.try_emplace(worker, fresh).first->second;
  if (heard.incarnation != incarnation) heard = fresh;
  return heard;
}

void Liveness::Welcome(WorkerId worker, Incarnation incarnation, absl::Time now) {
  Hear(worker, incarnation, now);
  Heard& heard = heard_.at(worker);
  heard.term = lease_;
  // The new registration has forgotten the earlier offer, so the term is offered anew.
  if (heard.offered.term < lease_) Offer(heard, std::exchange(heard.offered.term, lease_), now);
}

void Liveness::Hear(WorkerId worker, Incarnation incarnation, absl::Time now,
                    uint64_t lease_number) {
  Heard& heard = LifeOf(worker, incarnation);
  heard.at = now;
  heard.watched = true;
  heard.leaving = heard.revoked = false;
  if (lease_number == heard.offered.number) heard.term = heard.offered.term;
  NoteTerm(heard, now);
}

// Numbers also grow from one coordinator process to the next. Otherwise a late heartbeat could name
// by chance a lease that its daemon does not know.
void Liveness::Offer(Heard& heard, absl::Duration term, absl::Time now) const {
  if (heard.offered.term == term) return;
  const auto by_time = static_cast<uint64_t>(absl::ToUnixMicros(now));
  heard.offered = {term, std::max(heard.offered.number + 1, by_time)};
  heard.term = std::max(heard.term, term);
}

void Liveness::Offer(const std::map<WorkerId, absl::Duration>& terms, absl::Time now) {
  for (auto& [worker, heard] : heard_) {
    const auto asked = terms.find(worker);
    Offer(heard, asked == terms.end() ? lease_ : std::min(asked->second, lease_), now);
  }
}

Liveness::Lease Liveness::offer(WorkerId worker) const {
  const auto it = heard_.find(worker);
  return it == heard_.end() ? Lease{lease_} : it->second.offered;
}

void Liveness::Expect(WorkerId worker, Incarnation incarnation, absl::Time now) {
  heard_[worker] = {incarnation, now + kReturnsWithin, lease_, {lease_}};
  NoteTerm(heard_[worker], now);
}

void Liveness::Leave(WorkerId worker) {
  const auto it = heard_.find(worker);
  if (it != heard_.end()) it->second.leaving = true;
}

void Liveness::Revoke(WorkerId worker) {
  const auto it = heard_.find(worker);
  if (it != heard_.end()) it->second.revoked = true;
}

void Liveness::Forget(WorkerId worker) {
  const auto it = heard_.find(worker);
  if (it != heard_.end()) it->second.watched = false;
}

void Liveness::KeepOnly(const std::set<WorkerId>& workers) {
  std::erase_if(heard_, [&](const auto& each) { return workers.count(each.first) == 0; });
}

std::vector<LoseWorker> Liveness::Overdue(absl::Time now) {
  const bool stood_still = looked_at_.has_value() && (now < *looked_at_ || now > late_after_);
  if (stood_still) awake_since_ = now;
  looked_at_ = now;
  shortest_ = lease_;
  next_due_ = absl::InfiniteFuture();
  std::vector<LoseWorker> overdue;
  for (auto& [worker, heard] : heard_) {
    if (heard.watched && stood_still) heard.at = std::max(heard.at, now);
    if (heard.watched) NoteTerm(heard, now);
    if (const auto verdict = Verdict(worker, heard, now)) overdue.push_back(*verdict);
  }
  late_after_ = now + shortest_ / 2;
  const bool held = std::exchange(held_back_, 0) > 0;
  const bool most = !overdue.empty() && MostAreSilent(now);
  if (held && !most) {
    Excuse(now);
    return {};
  }
  std::erase_if(overdue, [&](const LoseWorker& verdict) {
    const Heard& heard = heard_.at(verdict.worker);
    if (heard.silence_is_expected() || now - heard.at > kHoldMax) return false;
    return most || MayBeMost(heard);
  });
  if (most && overdue.empty()) held_back_ = CountSilent(now);
  return overdue;
}

absl::Time Liveness::next_look() const {
  if (!looked_at_.has_value()) return absl::InfinitePast();
  return std::min(*looked_at_ + shortest_ / kLooksPerLease, next_due_);
}

void Liveness::NoteTerm(const Heard& heard, absl::Time now) {
  shortest_ = std::min(shortest_, heard.term);
  // A verdict that is held back is checked again at the next regular look.
  const absl::Time over = heard.at + heard.term + kPast;
  if (over > now) next_due_ = std::min(next_due_, over);
}

void Liveness::Excuse(absl::Time now) {
  for (auto& [worker, heard] : heard_) {
    if (heard.counts() && Silent(heard, now)) heard.at = now + kReturnsWithin;
  }
}

std::optional<LoseWorker> Liveness::Verdict(WorkerId worker, const Heard& heard,
                                            absl::Time now) const {
  const absl::Duration silence = now - heard.at;
  if (!heard.watched || silence <= heard.term) return std::nullopt;
  const absl::Duration shown = absl::Trunc(silence, absl::Milliseconds(100));
  const char* const why = heard.revoked   ? "its access was revoked; "
                          : heard.leaving ? "it was shutting down; "
                                          : "";
  return LoseWorker{worker, heard.incarnation,
                    absl::StrCat(why, "no heartbeat for ", absl::FormatDuration(shown))};
}

// A worker that has missed a heartbeat counts as silent: if all fall silent in one moment, their
// leases expire one after the other.
bool Liveness::Silent(const Heard& heard, absl::Time now) const {
  return now - heard.at > heard.term / 2;
}

size_t Liveness::CountSilent(absl::Time now) const {
  return std::count_if(heard_.begin(), heard_.end(), [&](const auto& each) {
    return each.second.counts() && Silent(each.second, now);
  });
}

size_t Liveness::CountWatched() const {
  return std::count_if(heard_.begin(), heard_.end(),
                       [](const auto& each) { return each.second.counts(); });
}

bool Liveness::MostAreSilent(absl::Time now) const {
  const size_t watched = CountWatched();
  return watched >= kCrowd && CountSilent(now) * 2 > watched;
}

// Workers with a longer lease are not due yet when a short one expires. If all leases are the same,
// this says no more than MostAreSilent.
bool Liveness::MayBeMost(const Heard& overdue) const {
  const absl::Time missed_at = overdue.at + overdue.term / 2;
  const size_t not_since = std::count_if(heard_.begin(), heard_.end(), [&](const auto& each) {
    return each.second.counts() && each.second.at <= missed_at;
  });
  const size_t watched = CountWatched();
  return watched >= kCrowd && not_since * 2 > watched;
}

absl::Duration Liveness::lease(WorkerId worker) const {
  const auto it = heard_.find(worker);
  return it == heard_.end() ? lease_ : it->second.term;
}

bool Liveness::lapsed(WorkerId worker, absl::Time now) const {
  const auto it = heard_.find(worker);
  return it != heard_.end() && now - it->second.at > it->second.term;
}

std::optional<absl::Duration> Liveness::silent_for(WorkerId worker, absl::Time now) const {
  const auto it = heard_.find(worker);
  if (it == heard_.end()) return std::nullopt;
  return std::max(now - it->second.at, absl::ZeroDuration());
}

bool Liveness::missed_heartbeat(WorkerId worker, absl::Time now) const {
  return silent_for(worker, now).value_or(absl::ZeroDuration()) > lease(worker) / 2;
}

void OfferLeases(const Coordinator& coordinator, Liveness& liveness, absl::Time now) {
  liveness.KeepOnly(Listed(coordinator));
  std::map<WorkerId, absl::Duration> shortest;
  for (const Job* job : coordinator.unfinished_jobs()) {
    const absl::Duration asked = LeaseWithin(job->spec.detect_within, liveness.lease());
    if (asked >= liveness.lease() || !job->live()) continue;
    for (const Rank& rank : job->ranks) {
      if (!rank.live()) continue;
      const auto [it, is_new] = shortest.emplace(rank.worker_id, asked);
      if (!is_new) it->second = std::min(it->second, asked);
    }
  }
  liveness.Offer(shortest, now);
}

}  // namespace dp::core

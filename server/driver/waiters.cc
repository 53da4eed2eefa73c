#include "server/driver/waiters.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace dp::server {

void Waiters::Park(Call call) {
  DP_CHECK(!calls_.contains(call.ticket));
  if (call.question(Wake::kChanged, {})) return;
  if (!HasRoomFor(call)) {
    DP_CHECK(call.question(Wake::kRefused, {}));
    return;
  }
  for (const core::Topic& topic : call.topics) by_topic_[topic].insert(PlaceOf(call));
  by_deadline_.emplace(call.deadline, call.ticket);
  Count(call);
  const Ticket ticket = call.ticket;
  calls_.emplace(ticket, std::move(call));
}

bool Waiters::HasRoomFor(const Call& call) const {
  if (call.blocked.has_value()) return CheckRoomInStore(call.blocked->job).ok();
  return calls_.size() - in_stores_ < capacity_.watches;
}

absl::Status Waiters::CheckRoomInStore(JobId job) const {
  const auto of_job = by_store_.find(job);
  if (of_job != by_store_.end() && of_job->second >= capacity_.in_one_store) {
    return absl::ResourceExhaustedError(
        absl::StrCat("job ", job.ToString(), ": ", of_job->second,
                     " calls wait in its store, which is the limit for one job; let fewer of its "
                     "processes wait at once"));
  }
  if (in_stores_ < capacity_.in_stores) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("job ", job.ToString(), ": ", in_stores_,
                   " calls wait in the stores of all jobs, which is the limit; try again later"));
}

void Waiters::Count(const Call& call) {
  if (!call.blocked.has_value()) return;
  ++in_stores_;
  ++by_store_[call.blocked->job];
}

void Waiters::Uncount(const Call& call) {
  if (!call.blocked.has_value()) return;
  --in_stores_;
  const auto it = by_store_.find(call.blocked->job);
  if (--it->second == 0) by_store_.erase(it);
}

bool Waiters::Cancel(Ticket ticket) { return End(ticket, Wake::kCancelled); }

void Waiters::WakeChanged(absl::Span<const core::Topic> changed) {
  // Asks each call once, however many of its topics changed.
  std::map<Place, std::vector<const core::Topic*>> woken;
  for (const core::Topic& topic : changed) {
    if (topic.kind == core::Topic::Kind::kStoreElement) continue;
    const auto parked = by_topic_.find(topic);
    if (parked == by_topic_.end()) continue;
    for (const Place& place : parked->second) woken[place].push_back(&topic);
  }
  for (const auto& [place, topics] : woken) (void)Answered(place.second, topics);
}

Waiters::Place Waiters::PlaceOf(const Call& call) {
  return {call.blocked.has_value() ? call.blocked->since : absl::InfinitePast(), call.ticket};
}

bool Waiters::WakeOne(const core::Topic& element) {
  const auto parked = by_topic_.find(element);
  if (parked == by_topic_.end()) return false;
  for (const Place& place : parked->second) {
    if (Answered(place.second, {&element})) return true;  // `parked` may be gone
  }
  return false;
}

bool Waiters::Answered(Ticket ticket, Changed changed) {
  const auto it = calls_.find(ticket);
  if (!it->second.question(Wake::kChanged, changed)) return false;
  Remove(it);
  return true;
}

void Waiters::Expire(absl::Time now) {
  while (next_deadline() <= now) (void)End(by_deadline_.begin()->second, Wake::kDeadline);
}

void Waiters::Stop() {
  while (!calls_.empty()) (void)End(calls_.begin()->first, Wake::kStopping);
}

absl::Time Waiters::next_deadline() const {
  return by_deadline_.empty() ? absl::InfiniteFuture() : by_deadline_.begin()->first;
}

std::vector<const BlockedCall*> Waiters::blocked(JobId job) const {
  std::vector<const BlockedCall*> blocked;
  for (const auto& [ticket, call] : calls_) {
    if (call.blocked.has_value() && call.blocked->job == job) blocked.push_back(&*call.blocked);
  }
  return blocked;
}

bool Waiters::End(Ticket ticket, Wake wake) {
  const auto it = calls_.find(ticket);
  if (it == calls_.end()) return false;
  const Call call = Remove(it);
  DP_CHECK(call.question(wake, {}));
  return true;
}

Waiters::Call Waiters::Remove(std::map<Ticket, Call>::iterator it) {
  Call call = std::move(it->second);
  calls_.erase(it);
  Uncount(call);
  for (const core::Topic& topic : call.topics) {
    const auto parked = by_topic_.find(topic);
    if (parked == by_topic_.end()) continue;  // the call names one topic twice
    parked->second.erase(PlaceOf(call));
    if (parked->second.empty()) by_topic_.erase(parked);
  }
  by_deadline_.erase({call.deadline, call.ticket});
  return call;
}

void CancelledWaits::Add(const std::vector<Waiters::Ticket>& tickets) {
  for (const Waiters::Ticket ticket : tickets) cancelled_.push_back({ticket, queue_capacity_});
}

void CancelledWaits::Cancel(Waiters& waiters, size_t taken, bool more) {
  for (Cancelled& each : std::exchange(cancelled_, {})) {
    if (waiters.Cancel(each.ticket) || !more || each.ahead <= taken) continue;
    each.ahead -= taken;
    cancelled_.push_back(each);
  }
}

}  // namespace dp::server

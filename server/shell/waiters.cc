#include "server/shell/waiters.h"

#include <utility>

#include "base/check.h"

namespace dp::server {

void Waiters::Park(Call call) {
  DP_CHECK(!calls_.contains(call.ticket));
  if (call.question(Wake::kChanged)) return;
  if (calls_.size() >= capacity_) {
    DP_CHECK(call.question(Wake::kRefused));
    return;
  }
  for (const core::Topic& topic : call.topics) by_topic_[topic].insert(call.ticket);
  by_deadline_.emplace(call.deadline, call.ticket);
  const Ticket ticket = call.ticket;
  calls_.emplace(ticket, std::move(call));
}

void Waiters::Cancel(Ticket ticket) { End(ticket, Wake::kCancelled); }

void Waiters::WakeChanged(absl::Span<const core::Topic> changed) {
  // In order of arrival, each call once, however many of its topics changed.
  std::set<Ticket> woken;
  for (const core::Topic& topic : changed) {
    const auto parked = by_topic_.find(topic);
    if (parked != by_topic_.end()) woken.insert(parked->second.begin(), parked->second.end());
  }
  for (const Ticket ticket : woken) {
    const auto it = calls_.find(ticket);
    if (it->second.question(Wake::kChanged)) Remove(it);
  }
}

void Waiters::Expire(absl::Time now) {
  while (next_deadline() <= now) End(by_deadline_.begin()->second, Wake::kDeadline);
}

void Waiters::Stop() {
  while (!calls_.empty()) End(calls_.begin()->first, Wake::kStopping);
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

void Waiters::End(Ticket ticket, Wake wake) {
  const auto it = calls_.find(ticket);
  if (it == calls_.end()) return;
  const Call call = Remove(it);
  DP_CHECK(call.question(wake));
}

Waiters::Call Waiters::Remove(std::map<Ticket, Call>::iterator it) {
  Call call = std::move(it->second);
  calls_.erase(it);
  for (const core::Topic& topic : call.topics) {
    const auto parked = by_topic_.find(topic);
    if (parked == by_topic_.end()) continue;  // the call names one topic twice
    parked->second.erase(call.ticket);
    if (parked->second.empty()) by_topic_.erase(parked);
  }
  by_deadline_.erase({call.deadline, call.ticket});
  return call;
}

}  // namespace dp::server

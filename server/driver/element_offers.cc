#include "server/driver/element_offers.h"

#include <utility>

namespace dp::server {
namespace {

using Kind = core::Topic::Kind;

}  // namespace

void ElementOffers::OnChange(const core::Topic& changed) {
  if (changed.kind == Kind::kStoreElement) touched_.insert(changed);
  if (changed.kind == Kind::kWorldState) EndAll(changed.id);
  if (changed.kind != Kind::kStoreTaken) return;
  const auto promises = by_queue_.find({Kind::kStoreElement, changed.id, changed.key});
  if (promises != by_queue_.end()) End(promises);
}

void ElementOffers::OnParked(absl::Span<const core::Topic> topics) {
  for (const core::Topic& topic : topics) {
    if (topic.kind == Kind::kStoreElement) touched_.insert(topic);
  }
}

void ElementOffers::Offer(absl::Time now, Length length, Waiters& waiters) {
  Lapse(now);
  for (const core::Topic& queue : std::exchange(touched_, {})) {
    const size_t elements = length(queue);
    while (promised(queue) < elements && waiters.WakeOne(queue)) Promise(queue, now + promise_);
  }
}

absl::Time ElementOffers::next_deadline() const {
  return by_deadline_.empty() ? absl::InfiniteFuture() : by_deadline_.begin()->first;
}

void ElementOffers::Promise(const core::Topic& queue, absl::Time until) {
  by_queue_[queue].push_back(until);
  by_deadline_.emplace(until, queue);
}

void ElementOffers::End(std::map<core::Topic, std::deque<absl::Time>>::iterator promises) {
  auto& [queue, deadlines] = *promises;
  by_deadline_.erase(by_deadline_.find({deadlines.front(), queue}));
  deadlines.pop_front();
  if (deadlines.empty()) by_queue_.erase(promises);
}

void ElementOffers::EndAll(uint64_t job) {
  for (;;) {
    const auto promises = by_queue_.lower_bound({Kind::kStoreElement, job, ""});
    if (promises == by_queue_.end() || promises->first.id != job) return;
    End(promises);
  }
}

void ElementOffers::Lapse(absl::Time now) {
  while (next_deadline() <= now) {
    const core::Topic queue = by_deadline_.begin()->second;
    touched_.insert(queue);
    End(by_queue_.find(queue));
  }
}

size_t ElementOffers::promised(const core::Topic& queue) const {
  const auto promises = by_queue_.find(queue);
  return promises == by_queue_.end() ? 0 : promises->second.size();
}

}  // namespace dp::server

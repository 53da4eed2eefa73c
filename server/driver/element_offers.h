#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/core/outcome.h"
#include "server/driver/waiters.h"

namespace dp::server {

// Offers the elements of queues to the calls that wait. An element answers one call, the one that
// has waited longest, and is promised to it until an element is taken. No other call hears of a
// promised element, however often waits are parked anew. A promise expires if nothing is taken for
// a while, because its call may be gone. The element is then offered to the next call.
//
// Promises are no part of the machine's state: a restart forgets them. Not thread-safe; owned by
// the driver's thread. Time is an argument. The name of a queue is its Topic of
// Kind::kStoreElement.
class ElementOffers {
 public:
  explicit ElementOffers(absl::Duration promise) : promise_(promise) {}

  // Notes a change: an element has entered a queue or left it, or a store has ended.
  void OnChange(const core::Topic& changed);
  // Notes the topics that a call is parked under.
  void OnParked(absl::Span<const core::Topic> topics);

  // How many elements the queue has.
  using Length = absl::FunctionRef<size_t(const core::Topic& queue)>;
  // Offers the elements that are promised to nobody, in queues that were touched since the last
  // offer.
  void Offer(absl::Time now, Length length, Waiters& waiters);

  // When the next promise expires; InfiniteFuture if there is none.
  absl::Time next_deadline() const;

 private:
  void Promise(const core::Topic& queue, absl::Time until);
  // Ends the queue's oldest promise.
  void End(std::map<core::Topic, std::deque<absl::Time>>::iterator promises);
  void EndAll(uint64_t job);
  void Lapse(absl::Time now);
  size_t promised(const core::Topic& queue) const;

  const absl::Duration promise_;
  std::set<core::Topic> touched_;  // since the last offer
  // When the promises of a queue expire; no entry is empty.
  std::map<core::Topic, std::deque<absl::Time>> by_queue_;
  std::multiset<std::pair<absl::Time, core::Topic>> by_deadline_;
};

}  // namespace dp::server

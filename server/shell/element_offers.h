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
#include "server/shell/waiters.h"

namespace dp::server {

// Who is told of the elements of queues: each of them answers one call, the one that has waited
// longest, and is promised to it until an element is taken. So nobody is told of an element that is
// another's, however often waits are parked anew. A promise lapses when nothing has been taken for
// a while, as who has it may be gone; then the element is offered to the next.
//
// Promises are no part of the machine's state: a restart forgets them. Not thread-safe; owned by
// the driver's thread. Time is an argument. Queues are named by their Topic::Kind::kStoreElement.
class ElementOffers {
 public:
  explicit ElementOffers(absl::Duration promise) : promise_(promise) {}

  // What has changed: an element has entered a queue, or left it; or a store has ended.
  void OnChange(const core::Topic& changed);
  // Those that a call is parked under.
  void OnParked(absl::Span<const core::Topic> topics);

  // How many elements the queue has.
  using Length = absl::FunctionRef<size_t(const core::Topic& queue)>;
  // Offers what is promised to nobody, in queues that something has happened to.
  void Offer(absl::Time now, Length length, Waiters& waiters);

  // When a promise lapses; InfiniteFuture when there is none.
  absl::Time next_deadline() const;

 private:
  void Promise(const core::Topic& queue, absl::Time until);
  // The oldest one of the queue is over.
  void End(std::map<core::Topic, std::deque<absl::Time>>::iterator promises);
  void EndAll(uint64_t job);
  void Lapse(absl::Time now);
  size_t promised(const core::Topic& queue) const;

  const absl::Duration promise_;
  std::set<core::Topic> touched_;  // since the last offer
  // When the promises of a queue lapse; none is empty.
  std::map<core::Topic, std::deque<absl::Time>> by_queue_;
  std::multiset<std::pair<absl::Time, core::Topic>> by_deadline_;
};

}  // namespace dp::server

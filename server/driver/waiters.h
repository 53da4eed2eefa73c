#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/core/outcome.h"
#include "server/driver/blocked_call.h"

namespace dp::server {

// Parks all calls that wait. A call is parked under the topics that its answer depends on, with a
// question. The question is asked again when one of the topics changes. It is asked a last time at
// the call's deadline, when its client goes away, or when the coordinator stops.
//
// Not thread-safe; owned by the driver's thread. Time is an argument.
class Waiters {
 public:
  // Chosen by the caller; names one parked call.
  using Ticket = uint64_t;
  // kDenied comes from those who check callers, and never from here.
  enum class Wake { kChanged, kDeadline, kCancelled, kStopping, kRefused, kDenied };
  // With kChanged, the call's topics that changed; empty while the call is being parked. Every
  // change since then is passed on once.
  using Changed = absl::Span<const core::Topic* const>;
  // Answers the call and returns true. If woken by kChanged, may return false to stay parked. Every
  // call is therefore answered exactly once.
  using Question = std::function<bool(Wake, Changed)>;

  struct Call {
    Ticket ticket = 0;
    std::vector<core::Topic> topics;
    absl::Time deadline;
    Question question;
    std::optional<BlockedCall> blocked = {};  // of a call that waits in a store
  };

  // How many calls may be parked. Waits in stores take no room from watches: however many programs
  // wait, daemons get new assignments, and people see their jobs.
  struct Capacity {
    size_t watches = 20'000;  // two per rank of 10,000, at tens of kB each within gRPC
    size_t in_stores = 32'768;
    size_t in_one_store = 16'384;  // of one job: 10,000 ranks, and more
  };

  explicit Waiters(const Capacity& capacity) : capacity_(capacity) {}

  // Asks the question with kChanged, and parks the call if that does not answer it. Ends the call
  // with kRefused if there is no room for it.
  void Park(Call call);
  // Ends a parked call with kCancelled. Returns false if no such call is parked: it has been
  // answered, or is yet to be parked.
  bool Cancel(Ticket ticket);
  // Asks every call again that is parked under one of the topics, the longest wait first. Skips
  // elements of queues, which are for WakeOne.
  void WakeChanged(absl::Span<const core::Topic> changed);
  // Asks the calls again that are parked under an element of a queue, the longest wait first, until
  // one is answered. Returns whether one was.
  bool WakeOne(const core::Topic& element);
  // Ends the calls whose deadline has come.
  void Expire(absl::Time now);
  // Ends all calls with kStopping.
  void Stop();

  // The next time at which Expire has something to do; InfiniteFuture: never.
  absl::Time next_deadline() const;
  size_t size() const { return calls_.size(); }
  // The calls that wait in the job's store, in order of their tickets. Valid until the next change.
  std::vector<const BlockedCall*> blocked(JobId job) const;
  // OK: there is room for a call that waits in the job's store. Errors: ResourceExhausted.
  absl::Status CheckRoomInStore(JobId job) const;

 private:
  // In order of arrival: by ticket, except that calls in stores go by the time since they wait.
  using Place = std::pair<absl::Time, Ticket>;

  static Place PlaceOf(const Call& call);
  bool HasRoomFor(const Call& call) const;
  void Count(const Call& call);
  void Uncount(const Call& call);
  // Returns whether that answered the call.
  bool Answered(Ticket ticket, Changed changed);
  bool End(Ticket ticket, Wake wake);
  Call Remove(std::map<Ticket, Call>::iterator it);

  const Capacity capacity_;
  std::map<Ticket, Call> calls_;
  std::map<core::Topic, std::set<Place>> by_topic_;
  std::set<std::pair<absl::Time, Ticket>> by_deadline_;
  size_t in_stores_ = 0;              // calls in calls_ that wait in stores
  std::map<JobId, size_t> by_store_;  // the same for each job; no entry is 0
};

// Waits that were cancelled and have not ended yet. A cancellation bypasses the driver's queue, so
// it may overtake its wait. A ticket that is not parked is therefore kept until the driver has
// taken all calls that were queued at the cancellation. By then the wait has been parked or
// answered.
//
// Not thread-safe; owned by the driver's thread.
class CancelledWaits {
 public:
  explicit CancelledWaits(size_t queue_capacity) : queue_capacity_(queue_capacity) {}

  // Precondition: the waits of these tickets are queued, parked or answered.
  void Add(const std::vector<Waiters::Ticket>& tickets);
  // Ends the waits that are parked. The driver calls this after each batch: `taken` calls were
  // taken from the queue and parked, and the queue may hold `more`.
  void Cancel(Waiters& waiters, size_t taken, bool more);

  bool empty() const { return cancelled_.empty(); }

 private:
  struct Cancelled {
    Waiters::Ticket ticket;
    size_t ahead;  // at most this many queued calls are taken before its wait is parked
  };

  const size_t queue_capacity_;
  std::vector<Cancelled> cancelled_;
};

}  // namespace dp::server

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
#include "server/shell/blocked_call.h"

namespace dp::server {

// The one way in which a call waits. It is parked under the topics that its answer depends on, with
// a question that is asked again when one of them changes, and a last time at its deadline, when
// its client goes away, or when the coordinator stops.
//
// Not thread-safe; owned by the driver's thread. Time is an argument.
class Waiters {
 public:
  // Chosen by the caller; names one parked call.
  using Ticket = uint64_t;
  enum class Wake { kChanged, kDeadline, kCancelled, kStopping, kRefused };
  // With kChanged, those of the call's topics that have; none when it is being parked. Every change
  // since the call was parked is told once.
  using Changed = absl::Span<const core::Topic* const>;
  // Answers the call and returns true; or, woken by kChanged only, returns false to stay parked.
  // So every call is answered exactly once.
  using Question = std::function<bool(Wake, Changed)>;

  struct Call {
    Ticket ticket = 0;
    std::vector<core::Topic> topics;
    absl::Time deadline;
    Question question;
    std::optional<BlockedCall> blocked = {};  // of a call that waits in a store
  };

  // How many calls may be parked. What programs do in their stores takes no room of those who
  // watch: daemons hear of new assignments, and people of their jobs, whatever a job waits for.
  struct Capacity {
    size_t watches = 20'000;  // two for each rank of 10,000, at tens of kB each within gRPC
    size_t in_stores = 32'768;
    size_t in_one_store = 16'384;  // of one job: that of 10,000 ranks, and room
  };

  explicit Waiters(const Capacity& capacity) : capacity_(capacity) {}

  // Asks the question with kChanged, and parks the call where that does not answer it; ends it with
  // kRefused when there is no room for it.
  void Park(Call call);
  // Ends a parked call with kCancelled. Returns false where no such call is parked: it has been
  // answered, or is still to be parked.
  bool Cancel(Ticket ticket);
  // Asks again every call that is parked under one of the topics, the longest wait first. Elements
  // of queues are not among them: WakeOne is for these.
  void WakeChanged(absl::Span<const core::Topic> changed);
  // Asks again those that are parked under an element of a queue, the longest wait first, until one
  // has been answered. Returns whether one has.
  bool WakeOne(const core::Topic& element);
  // Ends the calls whose deadline has come.
  void Expire(absl::Time now);
  // Ends all calls with kStopping.
  void Stop();

  // When Expire has something to do; InfiniteFuture when never.
  absl::Time next_deadline() const;
  size_t size() const { return calls_.size(); }
  // Those that wait in the job's store, in order of arrival. Valid until the next change.
  std::vector<const BlockedCall*> blocked(JobId job) const;
  // OK: there is room for a call that waits in the job's store. Errors: ResourceExhausted.
  absl::Status CheckRoomInStore(JobId job) const;

 private:
  // In order of arrival, which is that of the tickets but for calls that have waited before.
  using Place = std::pair<absl::Time, Ticket>;

  static Place PlaceOf(const Call& call);
  bool HasRoomFor(const Call& call) const;
  void Count(const Call& call);
  void Uncount(const Call& call);
  // Returns whether that answered it.
  bool Answered(Ticket ticket, Changed changed);
  bool End(Ticket ticket, Wake wake);
  Call Remove(std::map<Ticket, Call>::iterator it);

  const Capacity capacity_;
  std::map<Ticket, Call> calls_;
  std::map<core::Topic, std::set<Place>> by_topic_;
  std::set<std::pair<absl::Time, Ticket>> by_deadline_;
  size_t in_stores_ = 0;              // of calls_
  std::map<JobId, size_t> by_store_;  // these; none is 0
};

}  // namespace dp::server

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "server/core/command.h"

namespace dp::core {

// Compares heartbeats with each worker's lease. Soft state: nothing here is journalled; its
// verdicts are. Not thread-safe; owned by the driver; takes the time as an argument.
//
// A worker's lease is the longest that its daemon may believe to hold. A longer one holds from when
// it is offered; a shorter one from when the daemon has said that it knows, since until then the
// daemon may leave its ranks alone for as long as the longer one allows.
class Liveness {
 public:
  // What a daemon is told with the answer to a heartbeat, and names by its number in later ones.
  struct Lease {
    absl::Duration term;
    uint64_t number = 0;  // grows with each; 0: the one of the registration
  };

  // What a daemon may take, beyond its lease, to find a coordinator that was restarted: its calls
  // back off to a second, its connection to as much, and all of them come at once.
  static constexpr absl::Duration kReturnsWithin = absl::Seconds(5);

  // Where more than half of the workers fall silent at once the fault is most likely on this side:
  // none of them is given up, for so long at the most. The silence of an only worker says nothing.
  static constexpr size_t kCrowd = 2;
  static constexpr absl::Duration kHoldMax = absl::Minutes(10);

  // `lease`: that of a worker which was offered no other, and the longest.
  explicit Liveness(absl::Duration lease);

  // This life of the worker has registered: it holds the longest lease until it says otherwise.
  void Welcome(WorkerId worker, Incarnation incarnation, absl::Time now);
  // A heartbeat of it, which names the lease that it knows of.
  void Hear(WorkerId worker, Incarnation incarnation, absl::Time now, uint64_t lease_number = 0);
  // Offers these leases, and the longest to all others.
  void Offer(const std::map<WorkerId, absl::Duration>& terms, absl::Time now);
  // What was offered to it last.
  Lease offer(WorkerId worker) const;

  // This life held a lease when an earlier coordinator ended; it gets kReturnsWithin and a full
  // term.
  void Expect(WorkerId worker, Incarnation incarnation, absl::Time now);
  // It is shutting down: its silence is to be expected, and says nothing of others.
  void Leave(WorkerId worker);
  // Gives no verdict on it any more, until it is heard of again; its silence goes on being counted.
  void Forget(WorkerId worker);
  // Keeps the records of these alone; the others are off the machine's books, and never come back
  // under their id.
  void KeepOnly(const std::set<WorkerId>& workers);

  // The lives whose lease has run out, by worker id. A verdict is repeated until Forget or Hear.
  // Call it at least every half of shortest(): a longer gap means that the coordinator itself stood
  // still or the clock was set, and starts every lease anew instead. Where leases differ, one that
  // has run out waits until enough of the others, which beat less often, would have been heard.
  std::vector<LoseWorker> Overdue(absl::Time now);

  // How many workers are silent, where verdicts on them are held back, as of the last Overdue; else
  // 0.
  size_t held_back() const { return held_back_; }
  // Whether this life is silent beyond its lease: somebody who knows more may give it up.
  bool lapsed(WorkerId worker, absl::Time now) const;

  // Since when the coordinator has looked at it without standing still itself; InfinitePast before
  // the first look. What did not come before then may have waited for the coordinator.
  absl::Time awake_since() const { return awake_since_; }

  // How many workers there are records of.
  size_t known() const { return heard_.size(); }
  // Since the worker was last heard of; absent for one never heard of.
  std::optional<absl::Duration> silent_for(WorkerId worker, absl::Time now) const;
  // Whether it has missed a heartbeat at least: half of its lease has gone.
  bool missed_heartbeat(WorkerId worker, absl::Time now) const;
  absl::Duration lease() const { return lease_; }
  // The worker's own; lease() for one never heard of.
  absl::Duration lease(WorkerId worker) const;
  // Of all, as of the last Overdue.
  absl::Duration shortest() const { return shortest_; }
  // When the next lease will have run out, as of the last Overdue: heartbeats alone do not make the
  // owner look.
  absl::Time next_due() const { return next_due_; }

 private:
  struct Heard {
    Incarnation incarnation;
    absl::Time at;
    absl::Duration term;  // the longest that the daemon may believe to hold
    Lease offered;        // the latest; never longer than `term`
    bool watched = true;
    bool leaving = false;

    bool counts() const { return watched && !leaving; }
  };

  void NoteTerm(const Heard& heard, absl::Time now);
  // A crowd that was held back comes again, one after the other: who is still silent gets as much
  // time as after a restart.
  void Excuse(absl::Time now);
  // The record of this life, made where there is none.
  Heard& LifeOf(WorkerId worker, Incarnation incarnation);
  void Offer(Heard& heard, absl::Duration term, absl::Time now) const;
  bool Silent(const Heard& heard, absl::Time now) const;
  // Whether more than half may have been silent for as long as this worker.
  bool MayBeMost(const Heard& overdue) const;
  size_t CountWatched() const;
  size_t CountSilent(absl::Time now) const;
  bool MostAreSilent(absl::Time now) const;
  std::optional<LoseWorker> Verdict(WorkerId worker, const Heard& heard, absl::Time now) const;

  const absl::Duration lease_;
  absl::Duration shortest_;
  absl::Time next_due_ = absl::InfiniteFuture();
  std::map<WorkerId, Heard> heard_;
  std::optional<absl::Time> looked_at_;
  absl::Time awake_since_ = absl::InfinitePast();
  size_t held_back_ = 0;
};

}  // namespace dp::core

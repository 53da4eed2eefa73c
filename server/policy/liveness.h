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

class Coordinator;

// Compares heartbeats with each worker's lease. Soft state: only its verdicts are journalled. Not
// thread-safe; owned by the driver; takes the time as an argument.
//
// A worker's lease is the longest that its daemon may believe it holds. A longer lease counts from
// its offer. A shorter lease counts once the daemon has confirmed it. Until then the daemon may
// leave its ranks alone for as long as the longer lease allows.
class Liveness {
 public:
  // Sent with the answer to a heartbeat. Later heartbeats of the daemon name it by its number.
  struct Lease {
    absl::Duration term;
    uint64_t number = 0;  // grows with each offer; 0: the lease of the registration
  };

  // How long, beyond its lease, a daemon may take to find a restarted coordinator. Its calls back
  // off to a second, its connection to as much, and all daemons come at once.
  static constexpr absl::Duration kReturnsWithin = absl::Seconds(5);

  // If more than half of the workers fall silent at once, the fault is probably on this side. None
  // of them is given up then, for kHoldMax at most. This needs kCrowd workers, since the silence of
  // an only worker says nothing.
  static constexpr size_t kCrowd = 2;
  static constexpr absl::Duration kHoldMax = absl::Minutes(10);

  // `lease` is the longest, and that of a worker without another offer.
  explicit Liveness(absl::Duration lease);

  // This incarnation has registered: it holds the longest lease until it confirms another.
  void Welcome(WorkerId worker, Incarnation incarnation, absl::Time now);
  // A heartbeat of this incarnation, with the number of the lease that it knows.
  void Hear(WorkerId worker, Incarnation incarnation, absl::Time now, uint64_t lease_number = 0);
  // Offers these leases to their workers, and the longest to all others.
  void Offer(const std::map<WorkerId, absl::Duration>& terms, absl::Time now);
  // The latest offer to the worker.
  Lease offer(WorkerId worker) const;

  // This incarnation held a lease when an earlier coordinator ended. It gets kReturnsWithin and a
  // full term.
  void Expect(WorkerId worker, Incarnation incarnation, absl::Time now);
  // The worker is shutting down: its silence is expected, and says nothing about the others.
  void Leave(WorkerId worker);
  // The worker's access was revoked: its silence is expected, until a heartbeat shows that it has
  // access again.
  void Revoke(WorkerId worker);
  // Gives no more verdicts on the worker until its next heartbeat. silent_for() goes on counting.
  void Forget(WorkerId worker);
  // Drops the records of all other workers. The machine no longer lists them, and their ids never
  // come back.
  void KeepOnly(const std::set<WorkerId>& workers);

  // The incarnations whose lease has expired, by worker id. A verdict is repeated until Forget or
  // Hear. Looks at every worker, so call it at next_look() and no more often. If it comes later
  // than half of the shortest lease, as of the last call, the coordinator stalled or the clock was
  // set. All leases then start anew. An expired short lease waits until enough workers with longer
  // leases, which beat less often, would have been heard.
  std::vector<LoseWorker> Overdue(absl::Time now);

  // The number of silent workers while verdicts on them are held back, as of the last Overdue; else
  // 0.
  size_t held_back() const { return held_back_; }
  // Whether the worker is silent beyond its lease: a caller with more evidence may give it up.
  bool lapsed(WorkerId worker, absl::Time now) const;

  // When the coordinator's last stall ended; InfinitePast if it never stalled. A message that had
  // not come before then may have waited for the coordinator.
  absl::Time awake_since() const { return awake_since_; }

  // How many workers there are records of.
  size_t known() const { return heard_.size(); }
  // The time since the last heartbeat of the worker; absent if it is unknown.
  std::optional<absl::Duration> silent_for(WorkerId worker, absl::Time now) const;
  // Whether the worker has missed a heartbeat: more than half of its lease has passed.
  bool missed_heartbeat(WorkerId worker, absl::Time now) const;
  absl::Duration lease() const { return lease_; }
  // The worker's own; lease() if it is unknown.
  absl::Duration lease(WorkerId worker) const;
  // When the owner must call Overdue: a lease may have expired then, or a part of the shortest has
  // passed since the last call. Heartbeats alone do not make it look.
  absl::Time next_look() const;

 private:
  struct Heard {
    Incarnation incarnation;
    absl::Time at;
    absl::Duration term;  // the longest that the daemon may believe it holds
    Lease offered;        // the latest; never longer than `term`
    bool watched = true;
    bool leaving = false;
    bool revoked = false;

    bool silence_is_expected() const { return leaving || revoked; }
    bool counts() const { return watched && !silence_is_expected(); }
  };

  void NoteTerm(const Heard& heard, absl::Time now);
  // A crowd that was held back returns one after the other: workers that are still silent get as
  // much time as after a restart.
  void Excuse(absl::Time now);
  // The record of this incarnation, created if missing.
  Heard& LifeOf(WorkerId worker, Incarnation incarnation);
  void Offer(Heard& heard, absl::Duration term, absl::Time now) const;
  bool Silent(const Heard& heard, absl::Time now) const;
  // Whether more than half of the workers may have been silent for as long as this one.
  bool MayBeMost(const Heard& overdue) const;
  size_t CountWatched() const;
  size_t CountSilent(absl::Time now) const;
  bool MostAreSilent(absl::Time now) const;
  std::optional<LoseWorker> Verdict(WorkerId worker, const Heard& heard, absl::Time now) const;

  const absl::Duration lease_;
  absl::Duration shortest_;                       // lease of all
  absl::Time next_due_ = absl::InfiniteFuture();  // no lease expires before
  std::map<WorkerId, Heard> heard_;
  std::optional<absl::Time> looked_at_;
  absl::Time late_after_ = absl::InfiniteFuture();  // a look after that shows a stall
  absl::Time awake_since_ = absl::InfinitePast();
  size_t held_back_ = 0;
};

// Offers each worker the shortest lease that the jobs with ranks on it need, by their detectWithin.
// Workers without such jobs get the longest. Drops from `liveness` the workers that the machine no
// longer lists, so that it is bounded as the machine is. Leases are soft state that follows from
// the machine's state: nothing here is journalled.
void OfferLeases(const Coordinator& coordinator, Liveness& liveness, absl::Time now);

}  // namespace dp::core

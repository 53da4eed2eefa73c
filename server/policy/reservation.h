#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "server/policy/slot_supply.h"

namespace dp::core {

// A job that holds slots.
struct RunningJob {
  JobId id;
  std::string user = {};
  std::string queue = {};
  SlotSupply::Slots slots = {};
  // By when it must end; InfiniteFuture if it may run for ever. Now or earlier: it is being
  // stopped, or must be.
  absl::Time until = absl::InfiniteFuture();
  // Slots that it has freed, but will probably need again in a moment.
  SlotSupply::Slots kept = {};
  int priority = 0;
  absl::Time since = absl::InfinitePast();  // when it got its slots
  bool preemptible = false;
  bool leaving = false;   // it was asked to leave, or is being stopped
  bool returns = false;   // with `leaving`: it will wait for slots again
  JobId leaves_for = {};  // with `leaving`: the job that gets its slots
};

// The reservation of the head, the first job that has to wait. The head starts at the latest when
// all jobs whose slots it needs have reached the end of their time. Other jobs may go ahead if they
// keep that time (docs/scheduling.md). Not thread-safe.
class Reservation {
 public:
  Reservation(const SlotSupply& now, const std::vector<RunningJob>& running, const SlotNeed& head,
              absl::Time time);

  // The latest time at which the head starts; InfiniteFuture if that depends on jobs that may run
  // for ever.
  absl::Time start() const { return start_; }
  // Whether a job may take these slots now, and hold them until `until`, without delaying the head.
  bool Spares(const SlotSupply::Slots& slots, absl::Time until) const;
  // Records that a job accepted by Spares took these slots.
  void Concede(const SlotSupply::Slots& slots, absl::Time until);
  const SlotNeed& head() const { return head_; }

 private:
  bool OfNoUse(const SlotSupply::Slots& slots) const;

  const SlotNeed head_;
  absl::Time start_ = absl::InfiniteFuture();
  SlotSupply then_;  // the slots that are free at start_
};

}  // namespace dp::core

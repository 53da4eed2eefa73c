#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "server/core/slot_supply.h"

namespace dp::core {

// A job that holds slots.
struct RunningJob {
  JobId id;
  std::string user = {};
  std::string queue = {};
  SlotSupply::Slots slots = {};
  // By when it has to be over; InfiniteFuture where it may run for ever. Now or before: it is being
  // stopped, or has to be.
  absl::Time until = absl::InfiniteFuture();
  // It has freed them already, and is likely to want them again in a moment.
  SlotSupply::Slots kept = {};
  int priority = 0;
  absl::Time since = absl::InfinitePast();  // when it got its slots
  bool preemptible = false;
  bool leaving = false;   // it is asked to leave, or being stopped
  bool returns = false;   // with `leaving`: then it waits for slots again
  JobId leaves_for = {};  // with `leaving`: for that job
};

// What the first job that has to wait, the head, can count on: it starts at the latest when, of the
// jobs that hold slots, all have reached the end of their time whose slots it needs. Others may go
// before it where that stays as it is (docs/scheduling.md). Not thread-safe.
class Reservation {
 public:
  Reservation(const SlotSupply& now, const std::vector<RunningJob>& running, const SlotNeed& head,
              absl::Time time);

  // When the head can start, at the latest; InfiniteFuture where that is in the hands of jobs that
  // may run for ever.
  absl::Time start() const { return start_; }
  // Whether a job may take these slots now, and hold them until then, without delaying the head.
  bool Spares(const SlotSupply::Slots& slots, absl::Time until) const;
  // One that Spares said yes to has done so.
  void Concede(const SlotSupply::Slots& slots, absl::Time until);
  const SlotNeed& head() const { return head_; }

 private:
  bool OfNoUse(const SlotSupply::Slots& slots) const;

  const SlotNeed head_;
  absl::Time start_ = absl::InfiniteFuture();
  SlotSupply then_;  // what is free at that time
};

}  // namespace dp::core

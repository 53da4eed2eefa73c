#pragma once

#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "server/core/command.h"

namespace dp::core {

// Compares heartbeats with the lease. Soft state: nothing here is journalled; its verdicts are.
// Not thread-safe; owned by the driver; takes the time as an argument.
class Liveness {
 public:
  // What a daemon may take, beyond its lease, to find a coordinator that was restarted: its calls
  // back off to a second, its connection to as much, and all of them come at once.
  static constexpr absl::Duration kReturnsWithin = absl::Seconds(5);

  // Where more than half of the workers fall silent at once the fault is most likely on this side:
  // none of them is given up, for so long at the most. Fewer workers than this say nothing.
  static constexpr size_t kCrowd = 3;
  static constexpr absl::Duration kHoldMax = absl::Minutes(10);

  explicit Liveness(absl::Duration lease);

  // This life of the worker was heard of: a registration or a heartbeat.
  void Hear(WorkerId worker, Incarnation incarnation, absl::Time now);
  // This life held a lease when an earlier coordinator ended; it gets kReturnsWithin and a full
  // term.
  void Expect(WorkerId worker, Incarnation incarnation, absl::Time now);
  // It is shutting down: its silence is to be expected, and says nothing of others.
  void Leave(WorkerId worker);
  // Gives no verdict on it any more, until it is heard of again; its silence goes on being counted.
  void Forget(WorkerId worker);

  // The lives whose lease has run out, by worker id. A verdict is repeated until Forget or Hear.
  // Call it at least every half lease: a longer gap means that the coordinator itself stood still
  // or the clock was set, and starts every lease anew instead.
  std::vector<LoseWorker> Overdue(absl::Time now);

  // How many workers are silent, where verdicts on them are held back, as of the last Overdue; else
  // 0.
  size_t held_back() const { return held_back_; }
  // Whether this life is silent beyond its lease: somebody who knows more may give it up.
  bool lapsed(WorkerId worker, absl::Time now) const;

  // Since when the coordinator has looked at it without standing still itself; InfinitePast before
  // the first look. What did not come before then may have waited for the coordinator.
  absl::Time awake_since() const { return awake_since_; }

  // Since the worker was last heard of; absent for one never heard of.
  std::optional<absl::Duration> silent_for(WorkerId worker, absl::Time now) const;
  absl::Duration lease() const { return lease_; }

 private:
  struct Heard {
    Incarnation incarnation;
    absl::Time at;
    bool watched = true;
    bool leaving = false;

    bool counts() const { return watched && !leaving; }
  };

  // A crowd that was held back comes again, one after the other: who is still silent gets as much
  // time as after a restart.
  void Excuse(absl::Time now);
  size_t CountSilent(absl::Time now) const;
  bool MostAreSilent(absl::Time now) const;
  std::optional<LoseWorker> Verdict(WorkerId worker, const Heard& heard, absl::Time now) const;

  const absl::Duration lease_;
  std::map<WorkerId, Heard> heard_;
  std::optional<absl::Time> looked_at_;
  absl::Time awake_since_ = absl::InfinitePast();
  size_t held_back_ = 0;
};

}  // namespace dp::core

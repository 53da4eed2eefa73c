#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "worker/core/rank.h"

namespace dp::worker {

// What is known of one rank's process tree: the process itself and all that descends from it.
struct Process {
  enum class Phase {
    kStarting,  // asked for, not confirmed
    kRunning,
    kExited,  // the rank's own process has ended; descendants may still be dying
    kGone,    // nothing is left of the tree, or there never was any
  };

  Phase phase = Phase::kStarting;
  int slot = 0;
  absl::Duration grace;         // as assigned when it was started
  absl::Time job_submitted_at;  // likewise

  // What became of it.
  int64_t pid = 0;
  Exit exit;                            // from kExited on, where `error` is empty
  std::string error;                    // why there was no process at all
  std::vector<std::string> last_lines;  // from kExited on
  bool oom = false;                     // the kernel killed it for want of memory

  // What was done to it.
  std::optional<absl::Time> terminated_at;  // SIGTERM was sent
  bool killed = false;                      // SIGKILL of the whole tree was ordered
  bool declined = false;                    // it is never to be started
  bool cut_off = false;                     // it was killed because touch was lost

  // Its end was this daemon's doing.
  bool stopped() const { return terminated_at.has_value() || killed || declined; }

  // What is left to do once it is gone.
  absl::Time gone_at;
  bool logs_shipped = false;
  absl::Time logs_moved_at = absl::InfinitePast();  // the coordinator last stored some of its logs
  bool logs_refused = false;  // the coordinator has had no room for them since
  Milestone acknowledged = Milestone::kNone;

  // Facts are numbered in the order they were learned; this is the last one of this rank.
  uint64_t fact = 0;
};

// Whether a slot can be used, as far as its GPUs go. Where it has none, it is fit.
struct SlotFitness {
  enum class State {
    kFit,
    kReturning,  // not known yet: what used it last may not have let go
    kUnfit,      // for `reason`
  };
  State state = State::kFit;
  std::string reason = {};
  bool told = false;  // the coordinator knows that it is unfit

  // Whether the slot can be given back: it is fit, or nobody will be given it.
  bool settled() const { return state == State::kFit || (state == State::kUnfit && told); }
  bool operator==(const SlotFitness&) const = default;
};

// The daemon's knowledge of the world: its processes and whether the coordinator answers. Facts go
// in by the methods named after them; Reconcile (supervisor.h) reads it. A fact about a rank that
// is not known is ignored: it comes late. Owned by one thread; not thread-safe.
class Observed {
 public:
  // What was done.
  void AskedToStart(const AssignedRank& rank);
  // The rank will never be started, for `reason`.
  void Declined(const AssignedRank& rank, const std::string& reason, absl::Time now);
  void Terminated(const RankKey& key, absl::Time now);
  // `cut_off`: because touch with the coordinator was lost.
  void Killed(const RankKey& key, bool cut_off = false);
  void Forgotten(const RankKey& key);

  // What became of it. A process that could not be started is gone at once.
  void Started(const RankKey& key, int64_t pid);
  void StartFailed(const RankKey& key, const std::string& error, absl::Time now);
  void Exited(const RankKey& key, const Exit& exit, std::vector<std::string> last_lines,
              bool oom = false);
  void Gone(const RankKey& key, absl::Time now);

  // What is known of a slot; until it is told, it is fit.
  void SlotIs(int slot, SlotFitness fitness);

  // What the coordinator has taken.
  void LogsMoved(const RankKey& key, absl::Time now);
  // The coordinator has no room for them: they stay in the spool and are sent when it has.
  void LogsRefused(const RankKey& key);
  void LogsShipped(const RankKey& key);
  void Acknowledged(const RankKey& key, Milestone milestone);
  void Reachable(absl::Time now);
  void Unreachable();
  // Until then the coordinator gives the places of this daemon's ranks to nobody.
  void LeaseHeldUntil(absl::Time until);

  const absl::btree_map<RankKey, Process>& processes() const { return processes_; }
  // Null where the rank is not known.
  const Process* Find(const RankKey& key) const;
  const SlotFitness& fitness(int slot) const;
  // Since when the coordinator has answered; nothing while it does not.
  std::optional<absl::Time> reachable_since() const { return reachable_since_; }
  absl::Time lease_held_until() const { return lease_held_until_; }

 private:
  Process* FindMutable(const RankKey& key);

  absl::btree_map<RankKey, Process> processes_;
  absl::btree_map<int, SlotFitness> slots_;
  std::optional<absl::Time> reachable_since_;
  absl::Time lease_held_until_ =
      absl::InfiniteFuture();  // before the first lease there are no ranks
  uint64_t facts_ = 0;
};

}  // namespace dp::worker

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "worker/core/rank.h"

namespace dp::worker {

// The known state of one rank's process tree: the process itself and all its descendants.
struct Process {
  enum class Phase {
    kStarting,  // ordered, not confirmed
    kRunning,
    kExited,  // the rank's own process has ended; descendants may still be dying
    kGone,    // nothing is left of the tree, or it never existed
  };

  // Tells it from an earlier process of the same rank, or of a rank with the same key whose
  // coordinator has lost data. Never 0.
  uint64_t number = 0;
  Phase phase = Phase::kStarting;
  int slot = 0;
  absl::Duration grace;         // as assigned when it was started
  absl::Time job_submitted_at;  // likewise

  // Its fate.
  int64_t pid = 0;
  Exit exit;                            // from kExited on, where `error` is empty
  std::string error;                    // why there was no process at all
  std::vector<std::string> last_lines;  // from kExited on
  bool oom = false;                     // killed by the kernel: out of memory

  // The actions on it.
  std::optional<absl::Time> terminated_at;  // SIGTERM was sent
  bool killed = false;                      // SIGKILL of the whole tree was ordered
  bool declined = false;                    // it will never be started
  bool isolated = false;  // it was killed because contact with the coordinator was lost

  // Whether this daemon ended it.
  bool stopped() const { return terminated_at.has_value() || killed || declined; }

  // Work that is left once it is gone.
  absl::Time gone_at;
  bool logs_shipped = false;
  absl::Time logs_moved_at = absl::InfinitePast();  // the coordinator last stored some of its logs
  bool logs_refused = false;  // since then, the coordinator has had no room for more
  Milestone acknowledged = Milestone::kNone;

  // Facts are numbered in the order in which they are learned; this is the rank's latest one.
  uint64_t fact = 0;
};

// Whether the GPUs of a slot allow its use. A slot without GPUs is fit.
struct SlotFitness {
  enum class State {
    kFit,
    kReturning,  // not known yet: the last user may not have released it
    kUnfit,      // for `reason`
  };
  State state = State::kFit;
  std::string reason = {};
  bool told = false;  // the coordinator knows that the slot is unfit

  // Whether the slot can be given back: it is fit, or the coordinator will not give it out.
  bool settled() const { return state == State::kFit || (state == State::kUnfit && told); }
  bool operator==(const SlotFitness&) const = default;
};

// The daemon's knowledge: its processes, and whether the coordinator answers. Each method adds the
// fact that it is named after; Reconcile (supervisor.h) reads them. A fact about an unknown rank is
// late and ignored. Owned by one thread; not thread-safe.
class Observed {
 public:
  // The daemon's actions.
  void AskedToStart(const AssignedRank& rank);
  // The rank will never be started, for `reason`.
  void Declined(const AssignedRank& rank, const std::string& reason, absl::Time now);
  void Terminated(const RankKey& key, absl::Time now);
  // `isolated`: because contact with the coordinator was lost.
  void Killed(const RankKey& key, bool isolated = false);
  void Forgotten(const RankKey& key);

  // The fate of processes. A process that could not be started is gone at once.
  void Started(const RankKey& key, int64_t pid);
  void StartFailed(const RankKey& key, const std::string& error, absl::Time now);
  void Exited(const RankKey& key, const Exit& exit, std::vector<std::string> last_lines,
              bool oom = false);
  void Gone(const RankKey& key, absl::Time now);

  // The state of a slot; fit until set otherwise.
  void SlotIs(int slot, SlotFitness fitness);

  // The coordinator's answers.
  void LogsMoved(const RankKey& key, absl::Time now);
  // The coordinator has no room for the logs. They stay in the spool until it has.
  void LogsRefused(const RankKey& key);
  void LogsShipped(const RankKey& key);
  void Acknowledged(const RankKey& key, Milestone milestone);
  void Reachable(absl::Time now);
  void Unreachable();
  // Until then the coordinator places this daemon's ranks nowhere else.
  void LeaseHeldUntil(absl::Time until);

  const absl::btree_map<RankKey, Process>& processes() const { return processes_; }
  // Null if the rank is not known.
  const Process* Find(const RankKey& key) const;
  const SlotFitness& fitness(int slot) const;
  // Since when the coordinator has answered; absent while it does not.
  std::optional<absl::Time> reachable_since() const { return reachable_since_; }
  absl::Time lease_held_until() const { return lease_held_until_; }

 private:
  Process* FindMutable(const RankKey& key);

  absl::btree_map<RankKey, Process> processes_;
  absl::btree_map<int, SlotFitness> slots_;
  std::optional<absl::Time> reachable_since_;
  absl::Time lease_held_until_ = absl::InfiniteFuture();  // no ranks before the first lease
  uint64_t facts_ = 0;
  uint64_t processes_begun_ = 0;
};

}  // namespace dp::worker

#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "worker/core/observed.h"
#include "worker/core/rank.h"

// The decisions of a daemon: what to do so that the processes it observes become the ranks it
// should run. One function serves first start, cancel, a lost lease, reconnection and shutdown
// (docs/worker.md has its table).

namespace dp::worker {

enum class Mode {
  kServe,    // run what is assigned
  kStop,     // the daemon ends: every rank is stopped with its grace, and reported
  kAbandon,  // the lease is lost: every rank is killed at once, nobody wants a report
};

struct Desired {
  Mode mode = Mode::kServe;
  absl::btree_map<RankKey, AssignedRank> ranks;
};

// Run the rank's program.
struct Start {
  AssignedRank rank;
  bool operator==(const Start&) const = default;
};
// Record that the rank is never to be started.
struct Decline {
  AssignedRank rank;
  std::string reason;
  bool operator==(const Decline&) const = default;
};
// SIGTERM to the rank's own process.
struct Terminate {
  RankKey key;
  bool operator==(const Terminate&) const = default;
};
// SIGKILL to the whole tree.
struct Kill {
  RankKey key;
  bool cut_off = false;  // because touch with the coordinator was lost
  bool operator==(const Kill&) const = default;
};
// Tell the coordinator; due again and again until it is acknowledged.
struct Report {
  RankKey key;
  Milestone milestone = Milestone::kNone;
  bool operator==(const Report&) const = default;
};
// Drop what is known and kept of the rank.
struct Forget {
  RankKey key;
  bool operator==(const Forget&) const = default;
};

using Action = std::variant<Start, Decline, Terminate, Kill, Forget, Report>;

struct Decision {
  // Reports last, in the order their facts were learned, so that of two failures the coordinator
  // hears the first one first.
  std::vector<Action> actions;
  // Without any news, ask again then.
  absl::Time ask_again_at = absl::InfiniteFuture();
  // Nothing is left that the mode waits for: the daemon may exit (kStop) or register anew
  // (kAbandon).
  bool finished = false;
};

// How long a rank's logs may stay without progress, its processes gone and the coordinator
// answering, before its slot is freed without them.
inline constexpr absl::Duration kLogsPatience = absl::Seconds(10);

// Pure and level-triggered: the same arguments give the same answer, and once the actions are
// carried out and recorded in `observed`, only reports come again.
Decision Reconcile(const Desired& desired, const Observed& observed, absl::Time now);

}  // namespace dp::worker

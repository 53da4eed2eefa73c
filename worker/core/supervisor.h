#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "worker/core/observed.h"
#include "worker/core/rank.h"

// The decisions of a daemon: how to turn the processes that it observes into the ranks that it
// should run. One function serves first start, cancel, a lost lease, reconnection and shutdown
// (docs/worker.md has its table).

namespace dp::worker {

enum class Mode {
  kServe,    // run what is assigned
  kStop,     // the daemon shuts down: every rank is stopped with its grace, and reported
  kAbandon,  // the lease is lost: every rank is killed at once, without a report
};

struct Desired {
  Mode mode = Mode::kServe;
  // The coordinator is being told of the shutdown. Reports wait for that: it could otherwise place
  // the next generation of a stopped rank here again.
  bool announcing = false;
  absl::btree_map<RankKey, AssignedRank> ranks;
};

// Runs the rank's program.
struct Start {
  AssignedRank rank;
  bool operator==(const Start&) const = default;
};
// Records that the rank is never to be started.
struct Decline {
  AssignedRank rank;
  std::string reason;
  bool operator==(const Decline&) const = default;
};
// Sends SIGTERM to the rank's own process.
struct Terminate {
  RankKey key;
  bool operator==(const Terminate&) const = default;
};
// Sends SIGKILL to the whole process tree.
struct Kill {
  RankKey key;
  bool isolated = false;  // because contact with the coordinator was lost
  bool operator==(const Kill&) const = default;
};
// Reports to the coordinator; due until it is acknowledged.
struct Report {
  RankKey key;
  Milestone milestone = Milestone::kNone;
  bool operator==(const Report&) const = default;
};
// Drops all that is known and kept of the rank.
struct Forget {
  RankKey key;
  bool operator==(const Forget&) const = default;
};

using Action = std::variant<Start, Decline, Terminate, Kill, Forget, Report>;

struct Decision {
  // Reports come last, in the order in which the daemon learned their facts: the coordinator hears
  // of the first of two failures first.
  std::vector<Action> actions;
  // When to ask again if nothing happens before.
  absl::Time ask_again_at = absl::InfiniteFuture();
  // Nothing is left to wait for: the daemon may exit (kStop) or register anew (kAbandon).
  bool finished = false;
};

// How long the logs of a rank whose processes are gone may make no progress while the coordinator
// answers. Then the rank's slot is freed without them.
inline constexpr absl::Duration kLogsPatience = absl::Seconds(10);

// Pure and level-triggered: the same arguments give the same answer. Once the actions are carried
// out and recorded in `observed`, only reports come again.
Decision Reconcile(const Desired& desired, const Observed& observed, absl::Time now);

}  // namespace dp::worker

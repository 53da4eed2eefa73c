#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "base/mutex.h"
#include "server/core/coordinator.h"
#include "server/policy/liveness.h"

namespace dp::server {

// Renews leases on the thread that receives the heartbeat, so that a renewal waits neither for the
// driver's queue nor for its journal. The driver publishes which workers it knows. It passes the
// heartbeats since the last batch to Liveness, and only then asks which workers are overdue. Only
// Liveness decides.
//
// Note may be called on any thread, the other methods on the driver's. Time is an argument.
class Heartbeats {
 public:
  // The latest heartbeat of a worker.
  struct Beat {
    WorkerId worker;
    Incarnation incarnation;
    absl::Time at;
    uint64_t lease_number = 0;  // of the lease that the daemon knows of
    std::string name = {};      // that the daemon has proven; empty: it need not prove one
  };
  // The answer to a heartbeat. It reveals nothing that a crash could undo.
  struct Renewal {
    Epoch epoch;
    Revision revision;
    core::Liveness::Lease lease;
  };

  // Notes a heartbeat. nullopt: only the driver can answer it, because the worker, or this
  // incarnation of it, is not published here.
  std::optional<Renewal> Note(const Beat& beat) DP_EXCLUDES(mu_);

  // Publishes the workers that hold a lease, with the leases that are offered to them. The
  // coordinator's state must be durable by now.
  void Publish(const core::Coordinator& coordinator, const core::Liveness& liveness)
      DP_EXCLUDES(mu_);
  // For changes that concern no worker.
  void Advance(Revision revision) DP_EXCLUDES(mu_);
  // Passes on the heartbeats that came since the last call. Their times are bounded to between that
  // call and `now`, even if the clock was set.
  void TellLiveness(const core::Coordinator& coordinator, core::Liveness& liveness, absl::Time now)
      DP_EXCLUDES(mu_);
  // Forgets the worker, so that the driver answers its heartbeats. Returns false if a heartbeat has
  // come since TellLiveness. The answer to this heartbeat said that the lease holds, so a verdict
  // that did not count the heartbeat must not end the lease.
  bool Revoke(WorkerId worker) DP_EXCLUDES(mu_);
  // Forgets all workers for good.
  void Close() DP_EXCLUDES(mu_);

 private:
  struct Known {
    Incarnation incarnation;
    std::string name;
    core::Liveness::Lease offer;
    std::optional<Beat> beat;  // since TellLiveness
  };

  std::vector<Beat> Take() DP_EXCLUDES(mu_);

  absl::Time told_at_ = absl::InfinitePast();  // only for the driver's thread

  Mutex mu_;
  Epoch epoch_ DP_GUARDED_BY(mu_);
  Revision revision_ DP_GUARDED_BY(mu_);
  std::map<WorkerId, Known> known_ DP_GUARDED_BY(mu_);
  std::vector<WorkerId> beating_ DP_GUARDED_BY(mu_);  // workers with a beat
};

}  // namespace dp::server

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "base/mutex.h"
#include "server/core/coordinator.h"
#include "server/core/liveness.h"

namespace dp::server {

// Renews leases on the thread that receives the heartbeat, so that a renewal waits neither for the
// driver's queue nor for its journal. The driver publishes which workers it knows, passes the beats
// that have come since to Liveness, and only then asks who is overdue. Liveness still decides
// alone.
//
// Note is for any thread, the other methods for the driver's. Time is an argument.
class Heartbeats {
 public:
  // The latest heartbeat of a worker.
  struct Beat {
    WorkerId worker;
    Incarnation incarnation;
    absl::Time at;
    uint64_t lease_number = 0;  // of the lease that the daemon knows of
  };
  // The answer to a heartbeat. It reveals nothing that a crash could undo.
  struct Renewal {
    Epoch epoch;
    Revision revision;
    core::Liveness::Lease lease;
  };

  // Notes a heartbeat. No value: only the driver can answer it, because the worker is not known
  // here, or not with this incarnation.
  std::optional<Renewal> Note(const Beat& beat) DP_EXCLUDES(mu_);

  // Makes the workers that hold a lease known, with the leases that are offered to them. What the
  // coordinator knows of them must be durable.
  void Publish(const core::Coordinator& coordinator, const core::Liveness& liveness)
      DP_EXCLUDES(mu_);
  // For changes that concern no worker.
  void Advance(Revision revision) DP_EXCLUDES(mu_);
  // Passes on the beats that came since the last call. None counts as earlier than that call or
  // later than `now`, whatever was done to the clock.
  void TellLiveness(const core::Coordinator& coordinator, core::Liveness& liveness, absl::Time now)
      DP_EXCLUDES(mu_);
  // Forgets the worker, so that the driver answers its heartbeats. Refuses (false) if one has come
  // since TellLiveness: a daemon that was told that its lease holds must not lose it by a verdict
  // that did not count this heartbeat.
  bool Revoke(WorkerId worker) DP_EXCLUDES(mu_);
  // Forgets all workers, for good.
  void Close() DP_EXCLUDES(mu_);

 private:
  struct Known {
    Incarnation incarnation;
    core::Liveness::Lease offer;
    std::optional<Beat> beat;  // since TellLiveness
  };

  std::vector<Beat> Take() DP_EXCLUDES(mu_);

  absl::Time told_at_ = absl::InfinitePast();  // the driver's

  Mutex mu_;
  Epoch epoch_ DP_GUARDED_BY(mu_);
  Revision revision_ DP_GUARDED_BY(mu_);
  std::map<WorkerId, Known> known_ DP_GUARDED_BY(mu_);
  std::vector<WorkerId> beating_ DP_GUARDED_BY(mu_);  // those with a beat
};

}  // namespace dp::server

#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/links/link_place.h"
#include "worker/engine/collectives/links/peer_links.h"
#include "worker/engine/collectives/message.h"
#include "worker/engine/collectives/operation_queue.h"

namespace dp::engine {

// The links of a group, which opens them once it is connected. Messages and operations share one
// fate: after the first failure of either, all later ones fail with its error. Owned by the group,
// and destroyed before its queue. Thread-safe.
class GroupLinks {
 public:
  // `timeout`: of a message. `queue` outlives this.
  GroupLinks(OperationQueue& queue, absl::Duration timeout) : queue_(queue), timeout_(timeout) {}

  // Called once, before any message. `hooks` may have what concerns notes; the rest is set here.
  void Open(absl::StatusOr<LinkMembership> membership, PeerLinks::Options hooks = {});
  // Group::Pass and Group::Abort, once links are open.
  std::unique_ptr<Work> Pass(const Message& message);
  void Abort(const absl::Status& why);
  // Null until they are open.
  PeerLinks* links() const DP_EXCLUDES(mu_);

 private:
  OperationQueue& queue_;
  const absl::Duration timeout_;
  mutable Mutex mu_;
  std::unique_ptr<PeerLinks> links_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::engine

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/hierarchical/host_plan.h"
#include "worker/engine/collectives/hierarchical/staging_area.h"

namespace dp::engine {

// A rank of a group on several hosts, as its operations see it.
struct HostRank {
  const HostPlan* plan = nullptr;
  int rank = 0;
  Group* local = nullptr;            // the ranks of this host; null if this rank is alone there
  Group* between = nullptr;          // all ranks
  std::vector<StagingArea> staging;  // by rank; empty for ranks of other hosts
  // Kept, since fresh pages cost more than sums.
  std::vector<uint8_t> scratch;

  int host() const { return plan->host_of(rank); }
  // The ranks of this host, with this one.
  const std::vector<int>& beside() const { return plan->ranks_of(host()); }
  const StagingArea& own_staging() const { return staging[static_cast<size_t>(rank)]; }
};

// Starts the steps of one operation: smaller operations of the groups below it, which have its
// name, its number and its deadline.
class HostSteps {
 public:
  HostSteps(HostRank& self, absl::string_view name, uint64_t number, absl::Time deadline)
      : self_(self), name_(name), number_(number), deadline_(deadline) {}

  // The first step of each operation. Ends when every rank has begun a call that fits this one, and
  // all ranks of this host have come here. Names the ranks that have not, or states how calls
  // differ. From here on, the ranks of this host have the same deadline, the earliest of all.
  absl::Status MeetEverybody(const Collective& call);
  // Ends when every rank of this host has come here.
  absl::Status MeetOnHost() const;
  // Pieces between hosts.
  std::unique_ptr<Work> Between(std::vector<absl::Span<const uint8_t>> sent,
                                std::vector<absl::Span<uint8_t>> received) const;
  // The call as it is, over one of the groups.
  std::unique_ptr<Work> StartBetween(const Collective& call) const;
  std::unique_ptr<Work> StartOnHost(const Collective& call) const;
  // An error of the ranks of this host, or the reason why a peer has left. If a rank of another
  // host died, the connections between all ranks show it. If one did not come, the peer noted it.
  // If calls differ, the peer noted that, and rank 0 tells how.
  absl::Status Explained(const absl::Status& on_host) const;

 private:
  absl::Duration Left() const;
  Collective Named(Collective call, absl::Duration timeout) const;
  // The ranks for which peers on this host waited in vain, or nothing if none has given up.
  std::optional<std::vector<int>> GivenUpByPeers() const;
  bool PeersSawDifference() const;

  HostRank& self_;
  const absl::string_view name_;
  const uint64_t number_;
  absl::Time deadline_;
};

}  // namespace dp::engine

#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "store/store.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

struct HierarchicalOptions {
  GroupOptions group;
  // How long the ranks may take to find each other.
  absl::Duration connect_timeout = absl::Minutes(5);
  // As in GlooOptions.
  std::string address;
  std::string interface;
  // Ranks that give different texts count as ranks of different hosts.
  std::string host;
};

struct ConnectedHosts {
  std::unique_ptr<Group> group;
  // "hierarchical". "shm" if all ranks share memory, and "gloo" if none do.
  std::string backend;
  // Why the ranks of some host do not share memory; empty if there is none.
  std::string why_not;
};

// Joins `size` ranks, which may be on several hosts: through shared memory within a host, and over
// Gloo between hosts (docs/collectives.md, "Several hosts"). The ranks find out who is where. They
// meet in `store`, where nobody else uses keys that begin with "hosts/" or "gloo/". The store is
// not used after this returns. Blocks until all ranks are connected, the connect timeout has
// passed, or any thread requests `stop` (returns Aborted within 1 s).
// Errors: those of ConnectGloo and ConnectShm. Without Gloo, Unimplemented if ranks are on several
// hosts.
absl::StatusOr<ConnectedHosts> ConnectHierarchical(Store& store, int rank, int size,
                                                   const HierarchicalOptions& options,
                                                   std::stop_token stop = {});

}  // namespace dp::engine

#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "store/store.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

struct GlooOptions {
  GroupOptions group;
  // How long the ranks may take to find each other.
  absl::Duration connect_timeout = absl::Minutes(5);
  // Peers reach this rank at the address of `interface` if given (GLOO_SOCKET_IFNAME), else at
  // `address` (DP_ADDRESS: a name or number of this host). If neither is given, at the address that
  // this host's name resolves to. `interface` may list several, separated by commas, and every rank
  // then lists as many. Operations use all of them.
  std::string address;
  std::string interface;
};

// Joins `size` ranks in processes or threads over Gloo's TCP transport (docs/collectives.md). The
// ranks find each other through `store`, where nobody else uses keys that begin with "gloo/". The
// store is not used after this returns. Blocks until every pair is connected, the connect timeout
// has passed, or any thread requests `stop` (returns Aborted within 1 s).
// Errors: DeadlineExceeded names the ranks that did not arrive. InvalidArgument the address or
// interface is not this host's. FailedPrecondition ranks list more interfaces than others.
// Unavailable a peer went away; ResourceExhausted more ranks than this process may have open files;
// Unimplemented without Gloo. Also the store's.
absl::StatusOr<std::unique_ptr<Group>> ConnectGloo(Store& store, int rank, int size,
                                                   const GlooOptions& options,
                                                   std::stop_token stop = {});

}  // namespace dp::engine

#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/store/store.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

struct GlooOptions {
  GroupOptions group;
  // How long the ranks may take to find each other.
  absl::Duration connect_timeout = absl::Minutes(5);
  // Where peers reach this rank: the address of `interface` when given (GLOO_SOCKET_IFNAME), else
  // `address` (DP_ADDRESS: a name or number of this host), else what this host's name resolves to.
  std::string address;
  std::string interface;
};

// Joins `size` ranks in processes or threads over Gloo's TCP transport (docs/collectives.md). They
// find each other through `store`, where nobody else uses keys that begin with "gloo/"; it is not
// used after this returns. Blocks until every pair is connected, `stop` is requested (from any
// thread; the answer is Aborted within 1 s), or the connect timeout has passed.
// Errors: DeadlineExceeded names the ranks that did not arrive; InvalidArgument an address that is
// not this host's; Unavailable a peer went away; the store's; Unimplemented in a build without
// Gloo.
absl::StatusOr<std::unique_ptr<Group>> ConnectGloo(Store& store, int rank, int size,
                                                   const GlooOptions& options,
                                                   std::stop_token stop = {});

}  // namespace dp::engine

#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "store/operation.h"

namespace dp::server {

// Describes a call that waits in a store, for users who ask why a job does not go on.
struct BlockedCall {
  JobId job;
  Generation generation;
  std::string who;
  int rank = -1;                      // none, or unknown to the server of the caller
  std::string peer = {};              // if rank is -1: the caller's end of its connection, if any
  absl::Duration waited;              // in earlier calls, before this one was parked
  std::vector<StoreOperation> reads;  // what the call waits for
  absl::Time since;                   // when the call was parked, less `waited`; set at that time
};

}  // namespace dp::server

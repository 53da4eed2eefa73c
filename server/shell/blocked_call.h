#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "base/store/operation.h"

namespace dp::server {

// What a call that waits in a store tells of itself, for who asks why a job does not go on.
struct BlockedCall {
  JobId job;
  Generation generation;
  std::string who;
  int rank = -1;                      // none, or not known to who serves the caller
  std::string peer = {};              // then the caller's end of its connection, where it has one
  absl::Duration waited;              // in earlier calls, before this one was parked
  std::vector<StoreOperation> reads;  // what it waits for
  absl::Time since;                   // when it was parked, less `waited`; set then
};

}  // namespace dp::server

#pragma once

#include "absl/status/status.h"
#include "dp/v1/store.pb.h"
#include "server/shell/driver.h"
#include "server/shell/store_callers.h"

// Who is blocked in a job's store and rendezvous, for people. On the driver's thread.

namespace dp::server {

// Of the job's store, then of its rendezvous; in each the longest wait first.
void FillWaiters(const core::Job& job, const View& view, StoreCallers& callers,
                 v1::ListWaitersResponse* response);

// What `call` hears at its deadline: what is missing, and of a barrier which ranks.
absl::Status StillBlocked(const BlockedCall& call, const KeyValues& store, const View& view,
                          StoreCallers& callers);

}  // namespace dp::server

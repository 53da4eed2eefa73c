#pragma once

#include "absl/status/status.h"
#include "dp/v1/store.pb.h"
#include "server/callers/store_callers.h"
#include "server/driver/driver.h"

// Lists who is blocked in a job's store and rendezvous, for people. On the driver's thread.

namespace dp::server {

// The waits in the job's store, the longest first, then those in its rendezvous.
void FillWaiters(const core::Job& job, const View& view, StoreCallers& callers,
                 v1::ListWaitersResponse* response);

// The error of `call` at its deadline. It names what is missing, and if known the ranks that have
// not come.
absl::Status StillBlocked(const BlockedCall& call, const KeyValues& store, const View& view,
                          StoreCallers& callers);

}  // namespace dp::server

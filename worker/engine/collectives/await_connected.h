#pragma once

#include <stop_token>

#include "absl/status/status.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

// Waits for `connect`, the first operation of `group`, and aborts the group when any thread
// requests `stop`. Errors: those of the operation.
absl::Status AwaitConnected(Group& group, Work& connect, std::stop_token stop);

}  // namespace dp::engine

#pragma once

#include <memory>
#include <stop_token>
#include <utility>

#include "absl/status/statusor.h"
#include "store/store.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

// Runs `group->Connect(store)` to its end, and aborts it when any thread requests `stop`.
template <typename ConnectingGroup>
absl::StatusOr<std::unique_ptr<Group>> AwaitConnected(std::unique_ptr<ConnectingGroup> group,
                                                      Store& store, std::stop_token stop) {
  std::unique_ptr<Work> connect = group->Connect(store);
  absl::Status status;
  {
    std::stop_callback abort(
        stop, [&group] { group->Abort(absl::CancelledError("its caller asked it to stop")); });
    status = connect->Wait();
  }
  if (!status.ok()) return status;
  return group;
}

}  // namespace dp::engine

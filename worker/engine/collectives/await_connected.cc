#include "worker/engine/collectives/await_connected.h"

#include <utility>

namespace dp::engine {

absl::Status AwaitConnected(Group& group, Work& connect, std::stop_token stop) {
  std::stop_callback abort(std::move(stop), [&group] {
    group.Abort(absl::CancelledError("its caller asked it to stop"));
  });
  return connect.Wait();
}

}  // namespace dp::engine

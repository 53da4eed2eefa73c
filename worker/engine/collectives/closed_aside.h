#pragma once

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

// The same group for a caller whom its destructor must not block for long. The destructor runs on a
// thread of its own. If a call of a foreign library hangs there, `on_left_behind` is called, and
// that thread stays with all that it holds until the process ends. The limit is 20 turns, and
// another one for every 10 of the first 4,096 ranks.
std::unique_ptr<Group> ClosedAside(std::unique_ptr<Group> group,
                                   std::function<void()> on_left_behind,
                                   absl::Duration turn = absl::Milliseconds(250));

}  // namespace dp::engine

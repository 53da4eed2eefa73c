#pragma once

#include <functional>
#include <thread>

#include "worker/agent/mailbox.h"

namespace dp::worker {

// Turns SIGTERM, SIGINT and SIGHUP into ShutdownWanted, on its own thread. Create it before any
// other thread: later threads inherit the blocked signals. One per process.
class ShutdownSignals {
 public:
  // `wanted` is called too, on that thread: it ends what the daemon waits for before its loop.
  explicit ShutdownSignals(
      Mailbox& mailbox, std::function<void()> wanted = [] {});
  ~ShutdownSignals();

 private:
  std::jthread thread_;
};

}  // namespace dp::worker

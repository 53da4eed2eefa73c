#pragma once

#include <thread>

#include "worker/agent/mailbox.h"

namespace dp::worker {

// Turns SIGTERM, SIGINT and SIGHUP into ShutdownWanted, on its own thread. Create it before any
// other thread: later threads inherit the blocked signals. One per process.
class ShutdownSignals {
 public:
  explicit ShutdownSignals(Mailbox& mailbox);
  ~ShutdownSignals();

 private:
  std::jthread thread_;
};

}  // namespace dp::worker

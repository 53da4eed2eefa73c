#pragma once

#include <thread>

#include "worker/agent/events.h"

namespace dp::worker {

// Turns SIGTERM, SIGINT and SIGHUP into ShutdownWanted, on a thread of its own. Make it before any
// other thread: the signals are blocked in every thread that is made later. One a process.
class ShutdownSignals {
 public:
  explicit ShutdownSignals(Events& events);
  ~ShutdownSignals();

 private:
  std::jthread thread_;
};

}  // namespace dp::worker

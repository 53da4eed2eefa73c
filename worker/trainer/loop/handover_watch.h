#pragma once

#include <atomic>
#include <thread>

#include "base/clock.h"
#include "client/connection.h"
#include "client/pause.h"
#include "worker/trainer/environment.h"

namespace dp::trainer {

// Watches, on a thread of its own, for the coordinator's request that the ranks of this generation
// save a checkpoint and leave. Retries while the coordinator is away. The owner of the connection
// must cancel its calls before it destroys this.
class HandoverWatch {
 public:
  HandoverWatch(client::Connection& connection, const Environment& environment, const Clock& clock);
  ~HandoverWatch();

  // Any thread. Once true, stays true.
  bool asked() const { return asked_; }

 private:
  void Run();

  client::Connection& connection_;
  const Environment& environment_;
  const Clock& clock_;
  client::Pause pause_;
  std::atomic<bool> asked_ = false;
  std::atomic<bool> stopped_ = false;
  std::jthread thread_;  // last: it starts when all other members exist
};

}  // namespace dp::trainer

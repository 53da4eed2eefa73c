#pragma once

#include <atomic>
#include <thread>

#include "base/clock.h"
#include "client/connection.h"
#include "client/pause.h"
#include "worker/trainer/environment.h"

namespace dp::trainer {

// Learns, on a thread of its own, that the coordinator asks the ranks of this generation to save a
// checkpoint and leave. Rides out a coordinator that is away. Who owns the connection ends its
// calls before this is destroyed.
class HandoverWatch {
 public:
  HandoverWatch(client::WorldsConnection& connection, const Environment& environment,
                const Clock& clock);
  ~HandoverWatch();

  // Any thread. Never goes back.
  bool asked() const { return asked_; }

 private:
  void Run();

  client::WorldsConnection& connection_;
  const Environment& environment_;
  const Clock& clock_;
  client::Pause pause_;
  std::atomic<bool> asked_ = false;
  std::atomic<bool> stopped_ = false;
  std::jthread thread_;  // last: it starts when all else is there
};

}  // namespace dp::trainer

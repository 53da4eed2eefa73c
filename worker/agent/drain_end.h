#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"
#include "client/connection.h"
#include "client/pause.h"

namespace dp::worker {

// Ends the drain that was set when an earlier daemon of this worker shut down, for example by a
// pod's preStop hook. The reason identifies the drain; a drain for any other reason stays. A
// coordinator of an earlier release may also end a drain that an operator sets at the same moment.
// Retries while the coordinator is away. The owner cancels the calls in flight on `connection`
// before it destroys this object.
class DrainEnd {
 public:
  DrainEnd(client::Connection& connection, std::string reason, const Clock& clock, uint64_t seed);
  ~DrainEnd();

  // Ends the drain, on its own thread. Called once, when the coordinator knows the worker.
  void Begin(const std::string& worker);

 private:
  void End(const std::string& worker);
  // Errors: those of the two calls. A drain for another reason is no error.
  absl::Status Try(const std::string& worker, absl::Duration deadline_in);

  client::Connection& connection_;
  const std::string reason_;
  const Clock& clock_;
  const uint64_t seed_;
  client::Pause pause_;
  std::jthread thread_;
};

}  // namespace dp::worker

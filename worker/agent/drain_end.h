#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"
#include "client/connection.h"
#include "client/pause.h"

namespace dp::worker {

// Ends the drain that an earlier daemon of this worker was given at its own end, such as the one
// that a pod asks for before it ends. The drain is known by its reason, so a drain for any other
// reason stays; a coordinator of an earlier release may end a drain that an operator sets at the
// same moment. While the coordinator is away it goes on trying. Its owner ends the calls under way
// on `connection` before destroying it.
class DrainEnd {
 public:
  DrainEnd(client::WorkersConnection& connection, std::string reason, const Clock& clock,
           uint64_t seed);
  ~DrainEnd();

  // Ends the drain from a thread of its own. Called once, when the coordinator knows the worker.
  void Begin(const std::string& worker);

 private:
  void End(const std::string& worker);
  // Errors: those of the two calls, but for a drain with another reason.
  absl::Status Try(const std::string& worker, absl::Duration deadline_in);

  client::WorkersConnection& connection_;
  const std::string reason_;
  const Clock& clock_;
  const uint64_t seed_;
  client::Pause pause_;
  std::jthread thread_;
};

}  // namespace dp::worker

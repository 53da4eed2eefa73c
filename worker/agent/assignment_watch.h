#pragma once

#include <cstdint>
#include <thread>

#include "base/backoff.h"
#include "base/bounded_queue.h"
#include "client/connection.h"
#include "worker/agent/events.h"

namespace dp::worker {

// Tells every new version of this worker's assignment, from a thread of its own. Errors are the
// lease's to judge; here they only mean: ask again. Its owner ends the calls under way on
// `connection` before destroying it.
class AssignmentWatch {
 public:
  AssignmentWatch(client::WorkersConnection& connection, uint64_t seed, Events& events);
  ~AssignmentWatch();

  // Watches for this session from now on. The same one again changes nothing. Any thread.
  void Use(const Session& session);

 private:
  void Loop();
  // Returns how long to wait before the next question.
  absl::Duration Ask();

  client::WorkersConnection& connection_;
  Events& events_;
  // Sessions are few, and a new one comes only when the last is lost.
  BoundedQueue<Session> orders_{64};

  // Owned by the thread.
  Session session_;
  uint64_t since_ = 0;
  Backoff backoff_;

  std::jthread thread_;
};

}  // namespace dp::worker

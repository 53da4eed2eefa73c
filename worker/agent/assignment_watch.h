#pragma once

#include <cstdint>
#include <thread>

#include "base/backoff.h"
#include "base/bounded_queue.h"
#include "client/connection.h"
#include "worker/agent/mailbox.h"

namespace dp::worker {

// Reports every new version of this worker's assignment, from its own thread. An error only makes
// the watch ask again; the lease judges errors. The owner cancels the calls in flight on
// `connection` before it destroys the watch.
class AssignmentWatch {
 public:
  AssignmentWatch(client::Connection& connection, uint64_t seed, Mailbox& mailbox);
  ~AssignmentWatch();

  // Watches for this session from now on. The same session again is a no-op. Any thread.
  void Use(const Session& session);

 private:
  void Loop();
  // Asks once. Returns how long to wait before the next call.
  absl::Duration Ask();

  client::Connection& connection_;
  Mailbox& mailbox_;
  // There is one order per registration, and registrations are rare.
  BoundedQueue<Session> orders_{64};

  // Owned by the thread.
  Session session_;
  uint64_t since_ = 0;
  Backoff backoff_;

  std::jthread thread_;
};

}  // namespace dp::worker

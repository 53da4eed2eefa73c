#include "worker/agent/assignment_watch.h"

#include <pthread.h>

#include "base/check.h"
#include "client/long_poll.h"
#include "dp/v1/workers.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::worker {
AssignmentWatch::AssignmentWatch(client::Connection& connection, uint64_t seed, Mailbox& mailbox)
    : connection_(connection),
      mailbox_(mailbox),
      backoff_(BackoffOptions{.max = absl::Seconds(1)}, seed) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "assignment");
}

AssignmentWatch::~AssignmentWatch() { orders_.Close(); }

void AssignmentWatch::Use(const Session& session) {
  Session order = session;
  const bool taken = orders_.TryPush(order);
  DP_CHECK(taken || orders_.closed());
}

void AssignmentWatch::Loop() {
  absl::Duration pause = absl::InfiniteDuration();
  while (!orders_.closed()) {
    for (const Session& session : orders_.DrainFor(pause)) {
      if (session == session_) continue;
      session_ = session;
      since_ = 0;
    }
    const bool registered = session_.incarnation.valid();
    pause = registered && !orders_.closed() ? Ask() : absl::InfiniteDuration();
  }
}

absl::Duration AssignmentWatch::Ask() {
  v1::WatchAssignmentRequest request;
  request.set_worker_id(session_.worker_id);
  request.set_incarnation(session_.incarnation.value());
  request.set_since(since_);
  *request.mutable_timeout() = ToProto(client::kLongPoll);
  auto response = connection_.Call(&v1::Workers::Stub::WatchAssignment, request,
                                   client::kLongPoll + client::kAnswerSlack);
  // Nothing new, or no answer: wait a little, to spare a coordinator that answers at once.
  if (!response.ok() || response->assignment().version() == since_) return backoff_.Next();
  backoff_.Reset();
  since_ = response->assignment().version();
  mailbox_.Tell(
      AssignmentChanged{session_.incarnation, std::move(*response->mutable_assignment())});
  return absl::ZeroDuration();
}

}  // namespace dp::worker

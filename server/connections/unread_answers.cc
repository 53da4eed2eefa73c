#include "server/connections/unread_answers.h"

namespace dp::server {

bool UnreadAnswers::Look(int connection, const SocketTraffic& traffic, absl::Time now) {
  if (traffic.unread <= kUnreadBytes) {
    Forget(connection);
    return false;
  }
  Doubt& doubt = doubts_.emplace(connection, Doubt{traffic, traffic.taken, now}).first->second;
  if (traffic.taken != doubt.taken) {
    doubt.taken = traffic.taken;
    doubt.taken_at = now;
  }
  const uint64_t sent = traffic.received - doubt.first.received;
  const uint64_t taken = traffic.taken - doubt.first.taken;
  return sent > kSentBytes + taken / kTakenForEachSent || now - doubt.taken_at >= kTakesNothing;
}

}  // namespace dp::server

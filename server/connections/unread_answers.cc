#include "server/connections/unread_answers.h"

namespace dp::server {

bool UnreadAnswers::Full(int connection, const SocketTraffic& traffic, absl::Time now) {
  Since& since = full_.emplace(connection, Since{traffic, traffic.taken, now}).first->second;
  if (traffic.taken != since.taken) {
    since.taken = traffic.taken;
    since.taken_at = now;
  }
  const uint64_t sent = traffic.received - since.first.received;
  const uint64_t taken = traffic.taken - since.first.taken;
  return sent > kSentBytes + taken / kTakenForEachSent || now - since.taken_at >= kTakesNothing;
}

}  // namespace dp::server

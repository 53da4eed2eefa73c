#include "server/rpc/unread_answers.h"

namespace dp::server {

bool UnreadAnswers::Look(int connection, const SocketTraffic& now) {
  if (now.unread <= kUnreadBytes) {
    Forget(connection);
    return false;
  }
  const SocketTraffic& before = doubts_.emplace(connection, now).first->second;
  const uint64_t sent = now.received - before.received, taken = now.taken - before.taken;
  return sent > kSentBytes + taken / kTakenForEachSent;
}

}  // namespace dp::server

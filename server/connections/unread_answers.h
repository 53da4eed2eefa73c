#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/access/socket_traffic.h"

namespace dp::server {

// Finds connections whose other side goes on with calls and does not read the answers. gRPC keeps
// these without any bound, and HTTP/2 bounds only the messages in them, not their headers.
//
// A reader on a slow network also leaves answers unread, such as a long log. It sends little for
// each of them, while a call takes about as many bytes as its answer.
//
// Connections are numbers of the caller, and are used again. Pure: time is an argument. Not
// thread-safe.
class UnreadAnswers {
 public:
  // The caller looks at each connection so often. Within this time gRPC may keep some 100 MB for
  // all of them, as fast as it reads calls on two cores.
  static constexpr absl::Duration kLookEvery = absl::Milliseconds(250);
  // A connection with no more unread is not in doubt.
  static constexpr uint64_t kUnreadBytes = 64 << 10;
  // One in doubt may send so much, and besides a part of what it takes.
  static constexpr uint64_t kSentBytes = 1 << 20;
  static constexpr uint64_t kTakenForEachSent = 16;
  // One of which nothing is taken for so long must end. gRPC reads no more calls from some of them,
  // and waits. No shorter than a peer may be silent.
  static constexpr absl::Duration kTakesNothing = absl::Seconds(30);

  // Whether the connection must end.
  bool Look(int connection, const SocketTraffic& traffic, absl::Time now);
  // The connection has ended, or has no more than kUnreadBytes unread.
  void Forget(int connection) { doubts_.erase(connection); }

 private:
  struct Doubt {
    SocketTraffic first;
    uint64_t taken = 0;
    absl::Time taken_at;
  };

  absl::flat_hash_map<int, Doubt> doubts_;  // by connection
};

}  // namespace dp::server

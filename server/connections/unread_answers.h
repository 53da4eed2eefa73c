#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/access/socket_traffic.h"

namespace dp::server {

// Finds connections whose other side goes on with calls and does not read the answers. gRPC keeps
// these without any bound, and HTTP/2 bounds only the messages in them, not their headers. It does
// so while the kernel takes no more: the socket is full.
//
// A reader on a slow network also has a full socket, for example of a long log. It sends little for
// each answer, while a call takes about as many bytes as its answer.
//
// Connections are numbers of the caller, and are used again. Pure: time is an argument. Not
// thread-safe.
class UnreadAnswers {
 public:
  // The caller looks at each connection so often. Until then gRPC keeps whatever comes.
  static constexpr absl::Duration kLookEvery = absl::Milliseconds(100);
  // As long as the socket stays full, the other side may send so much, and besides a part of what
  // it takes.
  static constexpr uint64_t kSentBytes = 512 << 10;
  static constexpr uint64_t kTakenForEachSent = 16;
  // A connection of which nothing is taken for so long must end. gRPC reads no more calls from some
  // of them, and waits.
  static constexpr absl::Duration kTakesNothing = absl::Seconds(30);

  // The socket is full. Returns whether the connection must end.
  bool Full(int connection, const SocketTraffic& traffic, absl::Time now);
  // The socket is not full, or the connection has ended.
  void Forget(int connection) { full_.erase(connection); }

 private:
  struct Since {
    SocketTraffic first;  // when the socket was first seen to be full
    uint64_t taken = 0;
    absl::Time taken_at;
  };

  absl::flat_hash_map<int, Since> full_;  // by connection
};

}  // namespace dp::server

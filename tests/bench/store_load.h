#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"

namespace dp::bench {

// Requests that are sent in one piece, and the total size of the server's answers.
struct Exchange {
  std::string request;
  size_t reply_bytes = 0;
};

// Connections to a server of the TCPStore protocol, dialect C, each with one exchange outstanding.
// Checks only the length of an answer, so that the load costs less than the server.
//
// Blocks the one thread that uses it. Not thread-safe.
class StoreLoad {
 public:
  // The connection's next exchange; null when it has no more. The exchange must outlive its answer.
  using Next = std::function<const Exchange*(size_t connection)>;

  // Opens the connections one after another, then performs all handshakes. Errors: those of
  // wire::Connect; Unavailable the server closed a connection.
  static absl::StatusOr<std::unique_ptr<StoreLoad>> Open(uint16_t port, size_t connections);

  // Runs every connection until it has nothing more to send, and records the time of each exchange.
  // Errors: Unavailable the server closed a connection; DeadlineExceeded no answer within
  // `patience`; Internal an answer was longer than expected.
  absl::Status Run(const Next& next, absl::Duration patience);

  // The times of the last Run's exchanges, in nanoseconds, in the order in which they ended.
  const std::vector<int64_t>& latencies_ns() const { return latencies_ns_; }

 private:
  struct Connection {
    FileDescriptor socket;
    const Exchange* exchange = nullptr;
    size_t sent = 0;      // request bytes
    size_t answered = 0;  // reply bytes
    int64_t began_ns = 0;
    bool blocked = false;  // waits for room to send
  };

  explicit StoreLoad(FileDescriptor epoll) : epoll_(std::move(epoll)) {}

  absl::Status Connect(uint16_t port);
  // Starts the connection's next exchange, if it has one.
  absl::Status Begin(size_t index, const Next& next);
  absl::Status Send(size_t index);
  // Reads what has arrived. Begins the next exchange when the answer is complete.
  absl::Status Receive(size_t index, const Next& next);
  absl::Status Watch(size_t index, bool blocked);

  const FileDescriptor epoll_;
  std::vector<Connection> connections_;
  size_t running_ = 0;  // connections with an exchange in flight
  std::vector<int64_t> latencies_ns_;
};

}  // namespace dp::bench

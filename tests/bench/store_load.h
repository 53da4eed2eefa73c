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

// Requests that are sent in one piece, and how many bytes the server answers altogether.
struct Exchange {
  std::string request;
  size_t reply_bytes = 0;
};

// Connections to a server of the TCPStore protocol, dialect C, each with one exchange outstanding.
// It looks at the length of an answer only, so that the load costs less than what it measures.
//
// One thread, which it blocks. Not thread-safe.
class StoreLoad {
 public:
  // What a connection is to send next; null when it has no more. The exchange must outlive its
  // answer.
  using Next = std::function<const Exchange*(size_t connection)>;

  // Opens the connections, one after another, and shakes hands on all of them.
  // Errors: those of wire::Connect; Unavailable the server closes.
  static absl::StatusOr<std::unique_ptr<StoreLoad>> Open(uint16_t port, size_t connections);

  // Lets every connection run until it has no more to send, and notes the time of each exchange.
  // Errors: Unavailable the server has closed a connection; DeadlineExceeded it has not answered;
  // Internal it has answered more than was asked.
  absl::Status Run(const Next& next, absl::Duration patience);

  // Of the exchanges of the last Run, in nanoseconds, in the order in which they ended.
  const std::vector<int64_t>& latencies_ns() const { return latencies_ns_; }

 private:
  struct Connection {
    FileDescriptor socket;
    const Exchange* exchange = nullptr;
    size_t sent = 0;      // of the request
    size_t answered = 0;  // of the reply
    int64_t began_ns = 0;
    bool blocked = false;  // waits for room to send
  };

  explicit StoreLoad(FileDescriptor epoll) : epoll_(std::move(epoll)) {}

  absl::Status Connect(uint16_t port);
  // Starts the connection's next exchange, if it has one.
  absl::Status Begin(size_t index, const Next& next);
  absl::Status Send(size_t index);
  // Takes what has come; goes on with the next exchange when the answer is whole.
  absl::Status Receive(size_t index, const Next& next);
  absl::Status Watch(size_t index, bool blocked);

  const FileDescriptor epoll_;
  std::vector<Connection> connections_;
  size_t running_ = 0;  // connections with an exchange
  std::vector<int64_t> latencies_ns_;
};

}  // namespace dp::bench

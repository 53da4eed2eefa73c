#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "store/wire/protocol.h"
#include "store/wire/socket.h"

namespace dp::wire {

// Address, dialect and limits of a TCPStore server.
struct TcpEndpoint {
  std::string host;
  uint16_t port = 0;
  Dialect dialect = Dialect::kC;  // a server cannot be asked for it
  Limits limits;                  // of replies
};

// One connection to a TCPStore server. Its calls block; one thread at a time.
class TcpConnection {
 public:
  // Connects and shakes hands. Servers of PyTorch 2.2 to 2.4 close the connection on a ping; Open
  // then connects again and sends none.
  // Errors: InvalidArgument no such host; Unavailable nobody listens, or the server closes or is
  // silent. DataLoss the server answers as no store of this dialect does.
  static absl::StatusOr<std::unique_ptr<TcpConnection>> Open(const TcpEndpoint& endpoint,
                                                             absl::Duration timeout);

  // Queues a request that gets no reply; the next Call sends it along.
  void Tell(const Request& request);
  // Errors: Unimplemented the dialect has no such verb; DeadlineExceeded; Unavailable the server
  // has closed; ResourceExhausted the reply is beyond the limits.
  absl::StatusOr<Fields> Call(const Request& request, absl::Duration timeout);
  // Calls a wait. After the deadline cancels it, if the dialect can. Errors: as Call.
  absl::Status Wait(std::vector<std::string> keys, absl::Duration timeout);

  Dialect dialect() const { return endpoint_.dialect; }
  // False after an error: a reply may come that nobody waits for. The connection must then be
  // closed.
  bool usable() const { return usable_; }
  // Waits until the server closes, or the timeout has passed.
  void AwaitClose(absl::Duration timeout);

 private:
  TcpConnection(TcpEndpoint endpoint, FileDescriptor socket)
      : endpoint_(std::move(endpoint)), socket_(std::move(socket)) {}

  absl::Status Closed() const;
  // The error of a reply that cannot be read, with the server's address and a remedy.
  absl::Status Unreadable(const absl::Status& reply) const;
  absl::Status ShakeHands(bool ping, absl::Duration timeout);
  // Sends what is queued, and reads the fields of one reply.
  absl::StatusOr<Fields> Exchange(Shape reply, uint64_t count, absl::Duration timeout);
  absl::Status Send();
  // Returns false if there was nothing to read.
  absl::StatusOr<bool> Receive();
  absl::Status CancelWait(absl::Duration timeout);

  const TcpEndpoint endpoint_;
  const FileDescriptor socket_;
  std::string unsent_, heard_;
  bool usable_ = true;
};

}  // namespace dp::wire

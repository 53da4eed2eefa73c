#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/store/wire/protocol.h"
#include "base/store/wire/socket.h"

namespace dp::wire {

// Where a TCPStore server is, and what it speaks.
struct TcpEndpoint {
  std::string host;
  uint16_t port = 0;
  Dialect dialect = Dialect::kC;  // there is no way to ask a server
  Limits limits;                  // of replies
};

// One connection to a TCPStore server, used by one thread at a time, which it blocks.
class TcpConnection {
 public:
  // Connects and shakes hands. Servers of PyTorch 2.2 to 2.4 close when they are pinged; they are
  // then asked again without.
  // Errors: InvalidArgument no such host; Unavailable nobody listens, or it speaks another dialect.
  static absl::StatusOr<std::unique_ptr<TcpConnection>> Open(const TcpEndpoint& endpoint,
                                                             absl::Duration timeout);

  // Queues a request that is not answered; the next Call sends it along.
  void Tell(const Request& request);
  // Errors: Unimplemented the dialect has no such verb; DeadlineExceeded; Unavailable the server
  // has closed.
  absl::StatusOr<Fields> Call(const Request& request, absl::Duration timeout);
  // Calls a wait. Past the deadline it is taken back, where the dialect can. Errors: as Call.
  absl::Status Wait(std::vector<std::string> keys, absl::Duration timeout);

  Dialect dialect() const { return endpoint_.dialect; }
  // False after an error: a reply may come that nobody waits for. It is then to be closed.
  bool usable() const { return usable_; }
  // Waits until the server closes, or the timeout has passed.
  void AwaitClose(absl::Duration timeout);

 private:
  TcpConnection(TcpEndpoint endpoint, FileDescriptor socket)
      : endpoint_(std::move(endpoint)), socket_(std::move(socket)) {}

  absl::Status ShakeHands(bool ping, absl::Duration timeout);
  // Sends what is queued and takes the fields of one reply.
  absl::StatusOr<Fields> Exchange(Shape reply, uint64_t count, absl::Duration timeout);
  absl::Status Send();
  // Returns false when nothing was there.
  absl::StatusOr<bool> Receive();
  absl::Status CancelWait(absl::Duration timeout);

  const TcpEndpoint endpoint_;
  const FileDescriptor socket_;
  std::string unsent_, heard_;
  bool usable_ = true;
};

}  // namespace dp::wire

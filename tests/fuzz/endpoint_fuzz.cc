// Three clients send arbitrary bytes to a server over real sockets, in pieces and in turns, and
// leave at any time. The server must survive, answer another client all the while, and close each
// connection whose bytes it cannot parse.
//
// The input is a sequence of pieces as in server_fuzz: a byte for the client (with a flag to
// leave), the length, the bytes.

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "store/async_hash_store.h"
#include "store/wire/server.h"
#include "store/wire/tcp_connection.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::endpoint {
namespace {

using namespace dp::wire;

constexpr size_t kClients = 3;
constexpr uint8_t kGo = 0x80;
constexpr uint8_t kDeaf = 0x40;  // does not read what is sent to it, until the end
constexpr absl::Duration kPatience = absl::Seconds(60);
// A session with many requests in the store, or with notices left to send, does not parse further
// until its client gets its answers. Behind a wait this may be never. Fewer requests than this do
// not block a session.
constexpr size_t kRequestsFew = 32;

const RequestOptions kRequests{
    .limits = {.key_bytes = 64, .value_bytes = 4096, .keys = 64, .message_bytes = 16384}};

class Stranger {
 public:
  // Adds its requests to `requests`, the count of all clients.
  Stranger(uint16_t port, size_t& requests)
      : socket_(*Connect("127.0.0.1", port, kPatience)), requests_(requests) {
    // Closes without lingering: thousands of inputs must not leave sockets behind.
    const linger at_once{1, 0};
    DP_CHECK(setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
  }

  void Say(absl::string_view bytes) {
    Follow(bytes);
    while (!bytes.empty() && open_) {
      const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
      if (sent < 0 && errno != EAGAIN) open_ = false;
      if (sent >= 0 || !open_) continue;
      Hear();                                                // else the server reads no more
      (void)AwaitSocket(socket_.get(), POLLOUT, kPatience);  // the next send reports an error
    }
  }
  // Reads what has arrived.
  void Hear() {
    char bytes[4096];
    ssize_t got = 1;
    while (open_ && got > 0) got = recv(socket_.get(), bytes, sizeof(bytes), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) open_ = false;
  }
  void AwaitCloseIfRefused() {
    const bool few = requests_ < kRequestsFew && bytes_ < kRequests.limits.message_bytes;
    while (refused_ && few && open_) {
      DP_CHECK(AwaitSocket(socket_.get(), POLLIN, kPatience).ok());
      Hear();
    }
  }

 private:
  // Parses the bytes as the server must.
  void Follow(absl::string_view bytes) {
    bytes_ += bytes.size();
    Request request;
    while (!refused_) {
      const absl::StatusOr<bool> found = parser_.Next(&bytes, &request);
      refused_ = !found.ok();
      if (refused_ || !*found) return;
      ++requests_;
    }
  }

  const FileDescriptor socket_;
  RequestParser parser_{kRequests};
  size_t& requests_;
  size_t bytes_ = 0;
  bool refused_ = false;
  bool open_ = true;
};

class Endpoint {
 public:
  void Hear(uint8_t who, absl::string_view bytes) {
    std::unique_ptr<Stranger>& stranger = strangers_[who % kClients];
    if ((who & kGo) != 0) stranger.reset();
    if (stranger == nullptr) stranger = std::make_unique<Stranger>(server_->port(), requests_);
    stranger->Say(bytes);
    if ((who & kDeaf) == 0) stranger->Hear();
  }

  void End() {
    AskAnother();
    for (auto& stranger : strangers_) {
      if (stranger != nullptr) stranger->AwaitCloseIfRefused();
    }
    AskAnother();
    server_.reset();
    DP_CHECK(store_.waiting() == 0);
  }

 private:
  void AskAnother() {
    const auto ready = another_->Call({Verb::kCheck, {{"/nobody sets this"}}}, kPatience);
    DP_CHECK(ready.ok() && ready->number == kNotReady);
  }

  size_t requests_ = 0;
  AsyncHashStore store_{{.keys = 1000, .total_bytes = size_t{1} << 20}};
  std::unique_ptr<Server> server_ =
      *Server::Start(store_, {.host = "127.0.0.1", .requests = kRequests});
  std::unique_ptr<TcpConnection> another_ =
      *TcpConnection::Open({.host = "127.0.0.1", .port = server_->port()}, kPatience);
  std::array<std::unique_ptr<Stranger>, kClients> strangers_;
};

}  // namespace

void Run(absl::string_view input) {
  Endpoint endpoint;
  ForEachPiece(input, [&](uint8_t who, absl::string_view bytes) { endpoint.Hear(who, bytes); });
  endpoint.End();
}

std::vector<std::string> Seeds() { return InPieces(WireSeeds()); }

}  // namespace dp::fuzz::endpoint

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/store/async_store.h"
#include "base/store/wire/mailbox.h"
#include "base/store/wire/message_memory.h"
#include "base/store/wire/request_parser.h"
#include "base/store/wire/session.h"
#include "base/store/wire/socket.h"

namespace dp::wire {

// The memory of a server that shares no MessageMemory with others.
inline constexpr size_t kServerMemoryBytes = size_t{256} << 20;

struct ServerOptions {
  std::string host;   // numeric or a name; empty is every address, IPv4 and IPv6
  uint16_t port = 0;  // 0 is any free one
  RequestOptions requests;
  // Beyond it, and where descriptors run out, clients wait in the listener's backlog.
  size_t connections_max = 100000;
  // For what clients send; outlives the server. Null: kServerMemoryBytes of its own.
  MessageMemory* memory = nullptr;
  // A request that is not complete after so long is dropped, with its connection, where others wait
  // for memory. The time that it waits for memory itself does not count. A client on a slow network
  // sends the largest value in less. A shortage of memory that lasts for so long is logged.
  absl::Duration slow_after = absl::Seconds(10);
  const Clock& clock = Clock::Steady();
};

// Serves a store to clients of PyTorch's TCPStore protocol, every dialect on one port. One thread
// of its own does it all; each turn gives every connection that has something to say one bounded
// piece of work, so none starves the others. A silent connection is never closed: clients of
// dialect A keep one, and spin when they lose it. What clients send is read only as far as there is
// memory for it; a client that holds such memory for long, without completing its request, is the
// one exception.
//
// Owned by the coordinator's shell or a relay. The store outlives it. The destructor closes all
// connections; PyTorch's clients do not survive that, so it comes after the last rank has gone.
class Server {
 public:
  // Errors: InvalidArgument no such host; AlreadyExists the port is taken; others of the system.
  static absl::StatusOr<std::unique_ptr<Server>> Start(AsyncStore& store,
                                                       const ServerOptions& options);
  // Serves on a socket that already listens; host and port of the options are not looked at.
  static absl::StatusOr<std::unique_ptr<Server>> StartOn(FileDescriptor listener, AsyncStore& store,
                                                         const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const { return port_; }
  // How many connections are open. Any thread.
  size_t connections() const { return connections_open_.load(std::memory_order_relaxed); }

 private:
  struct Connection;
  using Connections = absl::flat_hash_map<uint64_t, std::unique_ptr<Connection>>;

  Server(FileDescriptor listener, FileDescriptor epoll, uint16_t port,
         std::shared_ptr<Mailbox> mailbox, AsyncStore& store, const ServerOptions& options);

  // All below: the server's thread.
  void Serve(const std::stop_token& stop);
  int TurnTimeoutMs() const;
  // There would be room for another connection, but the system has none.
  bool out_of_descriptors() const {
    return !accepting_ && connections_.size() < options_.connections_max;
  }
  void OnEvent(uint64_t id, uint32_t events);
  void Accept();
  // Switches the listener off where there is no room for another connection, and on again.
  void SetAccepting(bool accepting);
  void Open(FileDescriptor socket);
  void Close(uint64_t id, const absl::Status& reason);

  // Takes one piece of what the client sent.
  absl::Status Read(Connection& connection);
  absl::Status Write(Connection& connection);
  // Gives the answers to their sessions, and the replies to their sockets; until there are none.
  void Deliver(std::vector<Answer> answers);
  // Goes on with bytes that were held back.
  void ContinueHeld();
  // Closes connections whose requests come too slowly, the slowest first, while others wait for
  // their memory.
  void DropSlow();
  // Notes for how long the connection's client has delayed a request that holds memory.
  void NoteUnfinished(Connection& connection);
  // Logs a shortage of memory that lasts, once for all servers that share the memory.
  void NoteShortage();
  // After a piece of work of its session: delivers what it has set off; closes it on an error.
  void Conclude(Connection& connection, const absl::Status& status);
  void Touch(Connection& connection);
  // Brings the sockets of all that were touched in line with what their sessions want next.
  void SettleTouched();
  absl::Status Settle(Connection& connection);

  const FileDescriptor listener_;
  const FileDescriptor epoll_;
  const uint16_t port_;
  const std::shared_ptr<Mailbox> mailbox_;
  AsyncStore& store_;
  MessageMemory own_memory_{kServerMemoryBytes};
  MessageMemory& memory_;
  const ServerOptions options_;
  std::atomic<size_t> connections_open_{0};

  Connections connections_;
  uint64_t last_id_ = 1;  // ids below name the listener and the mailbox
  bool accepting_ = true;
  bool was_full_ = false;          // and has said so
  uint64_t shortage_ = 0;          // the shortage of memory_ that was last seen
  absl::Time short_since_;         // when it was first seen
  std::vector<uint64_t> held_;     // connections that have bytes to go on with
  std::vector<uint64_t> touched_;  // connections that may have something to send
  // Connections whose clients delay requests that hold memory, by the time since when. Time that
  // a request has waited for memory meanwhile moves it forward.
  std::set<std::pair<absl::Time, uint64_t>> unfinished_;
  std::vector<Answer> spent_;  // empty; its memory is for the next answers
  std::string buffer_;         // of one read, whoever's turn it is

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace dp::wire

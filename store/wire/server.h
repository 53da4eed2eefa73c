#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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
#include "base/program/repeated_reason.h"
#include "store/async_store.h"
#include "store/wire/mailbox.h"
#include "store/wire/message_memory.h"
#include "store/wire/request_parser.h"
#include "store/wire/session.h"
#include "store/wire/socket.h"

namespace dp::wire {

// The memory of a server that shares no MessageMemory with others.
inline constexpr size_t kServerMemoryBytes = size_t{256} << 20;

struct ServerOptions {
  std::string host;   // numeric or a name; empty: every address, IPv4 and IPv6
  uint16_t port = 0;  // 0: any free port
  RequestOptions requests;
  // Beyond this number, or without free descriptors, clients wait in the listener's backlog.
  size_t connections_max = 100000;
  // Memory for clients' requests; must outlive the server. Null: the server has its own
  // kServerMemoryBytes.
  MessageMemory* memory = nullptr;
  // While others wait for memory, a request that is incomplete for this long is dropped, with its
  // connection. Time in which the request itself waits for memory does not count. Even on a slow
  // network a client sends the largest value in less. A memory shortage of this length is logged.
  absl::Duration slow_after = absl::Seconds(10);
  // Asked about each new connection, by its socket. A refused one is closed; each reason is logged
  // once. Null: all are served.
  std::function<absl::Status(int socket)> admit = nullptr;
  const Clock& clock = Clock::Steady();
};

// Serves a store to clients of PyTorch's TCPStore protocol, every dialect on one port. One thread
// of its own does all the work. Each turn gives every active connection one bounded piece of work,
// so none starves the others. The server reads from clients only as much as it has memory for.
//
// The server never closes a silent connection: clients of dialect A keep one, and spin when they
// lose it. The one exception is a client that holds memory for long without completing its request.
//
// Owned by the coordinator's shell or a relay. The store must outlive it. The destructor closes all
// connections. PyTorch's clients do not survive that, so the last rank must be gone by then.
class Server {
 public:
  // Errors: InvalidArgument no such host; AlreadyExists the port is taken; others of the system.
  static absl::StatusOr<std::unique_ptr<Server>> Start(AsyncStore& store,
                                                       const ServerOptions& options);
  // Serves on a socket that already listens; ignores host and port of the options.
  static absl::StatusOr<std::unique_ptr<Server>> StartOn(FileDescriptor listener, AsyncStore& store,
                                                         const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const { return port_; }
  // The number of open connections. Any thread.
  size_t connections() const { return connections_open_.load(std::memory_order_relaxed); }

 private:
  struct Connection;
  using Connections = absl::flat_hash_map<uint64_t, std::unique_ptr<Connection>>;

  Server(FileDescriptor listener, FileDescriptor epoll, uint16_t port,
         std::shared_ptr<Mailbox> mailbox, AsyncStore& store, const ServerOptions& options);

  // All below: the server's thread.
  void Serve(const std::stop_token& stop);
  int TurnTimeoutMs() const;
  // Whether the options allow another connection, but the system has no descriptor for it.
  bool out_of_descriptors() const {
    return !accepting_ && connections_.size() < options_.connections_max;
  }
  void OnEvent(uint64_t id, uint32_t events);
  void Accept();
  // Switches the listener off when there is no room for another connection, and on again.
  void SetAccepting(bool accepting);
  // Whether the process has a descriptor for another connection.
  bool HasDescriptor() const;
  // Whether the client is to be served.
  bool Admits(int socket);
  void Open(FileDescriptor socket);
  void Close(uint64_t id, const absl::Status& reason);

  // Reads one piece of the client's bytes.
  absl::Status Read(Connection& connection);
  absl::Status Write(Connection& connection);
  // Gives the answers to their sessions, and the replies to their sockets, until none are left.
  void Deliver(std::vector<Answer> answers);
  // Continues with bytes that were held back.
  void ContinueHeld();
  // While others wait for memory, closes connections whose requests arrive too slowly, slowest
  // first.
  void DropSlow();
  // Updates for how long the connection's client has delayed a request that holds memory.
  void NoteUnfinished(Connection& connection);
  // Logs a shortage of memory that lasts, once for all servers that share the memory.
  void NoteShortage();
  // Ends a piece of work of the session: delivers the answers it caused; on an error closes the
  // connection.
  void Conclude(Connection& connection, const absl::Status& status);
  void Touch(Connection& connection);
  // Brings the sockets of all touched connections in line with what their sessions want next.
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
  bool was_full_ = false;          // and it was logged
  uint64_t shortage_ = 0;          // the shortage of memory_ that was seen last
  absl::Time short_since_;         // when it was first seen
  std::vector<uint64_t> held_;     // connections with bytes to continue with
  std::vector<uint64_t> touched_;  // connections that may have something to send
  // Connections whose clients delay requests that hold memory, by the start of the delay. Time in
  // which the request waits for memory moves the start forward.
  std::set<std::pair<absl::Time, uint64_t>> unfinished_;
  RepeatedReason strangers_{"tcpstore_client_refused"};  // who was not admitted
  std::vector<Answer> spent_;  // empty; its memory is reused for the next answers
  std::string buffer_;         // of one read, shared by all connections

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace dp::wire

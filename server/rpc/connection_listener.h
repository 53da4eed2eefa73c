#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "grpcpp/server_builder.h"
#include "server/rpc/handshake_turns.h"

namespace dp::server {

// Accepts connections in front of gRPC, which would accept without any bound. A connection is
// passed on once its first byte has come, which says whether it is TLS. A caller that never speaks
// therefore costs no more than a socket, and not for long. Handshakes of TLS begin in turns.
//
// It has a thread of its own. The acceptors, of a gRPC server that has started, must outlive it.
class ConnectionListener {
 public:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  struct Limits {
    // Connections whose first byte has not come, in all and from one host. Beyond, the oldest is
    // closed.
    size_t silent = 1'024;
    size_t silent_of_host = 256;
    absl::Duration silence = absl::Seconds(10);
    HandshakeTurns::Limits handshakes = {};
  };
  // Whom to pass connections to; null: such connections are closed.
  struct Acceptors {
    Acceptor* tls = nullptr;
    Acceptor* plain_text = nullptr;
  };

  // Begins to accept from a socket that listens and does not block.
  ConnectionListener(FileDescriptor listener, const Acceptors& acceptors, const Limits& limits);
  // Ends the thread, and closes what was not passed on.
  ~ConnectionListener();

 private:
  struct Silent {
    FileDescriptor socket;
    std::string host;
    absl::Time since;
  };

  void Run();
  void AcceptAll();
  void Watch(int fd);
  // Passes on a connection that has spoken, or closes one that has ended.
  void Heard(int fd);
  void PassOn(int fd, Acceptor& acceptor);
  // Passes on those whose turn it is.
  void BeginHandshakes();
  absl::Duration Patience() const;
  void Close(std::map<int, Silent>::iterator silent);
  void CloseOverdue();
  void CloseOldestOf(const std::string& host);

  const FileDescriptor listener_;
  const Acceptors acceptors_;
  const Limits limits_;
  const FileDescriptor epoll_;
  const FileDescriptor end_;  // an eventfd, readable once the thread must end
  std::map<int, Silent> silent_;
  std::map<std::string, size_t> of_host_;  // how many of them
  HandshakeTurns turns_;
  std::map<int, FileDescriptor> waiting_;  // for their turns
  std::jthread thread_;                    // last: it uses the others
};

}  // namespace dp::server

#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/program/repeated_reason.h"
#include "grpcpp/server_builder.h"
#include "server/access/refusals.h"
#include "server/access/stranger_connections.h"
#include "server/connections/abandoned_calls.h"
#include "server/connections/handshake_turns.h"
#include "server/connections/open_connections.h"
#include "server/connections/unread_answers.h"

namespace dp::server {

// Accepts connections in front of gRPC, which would accept without any bound. A connection is
// passed on once its first byte has come, which says whether it is TLS. A caller that never speaks
// therefore costs no more than a socket, and not for long. Handshakes of TLS begin in turns.
//
// The program keeps some descriptors for its own files. Once only these are left, a new connection
// takes the place of the oldest silent one. If there is none, the new one is closed.
//
// Connections over TLS are those of strangers until the gate knows better. The listener looks at
// how much these send, and holds back the handshakes of hosts that owe (StrangerConnections). It
// resets connections whose other side does not read its answers (UnreadAnswers), or begins calls
// without their messages although these are rejected (AbandonedCalls).
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
    // Connections that gRPC serves, from one host; more are closed.
    size_t open_of_host = 4'096;
    // Refusals are logged anew after none for so long.
    absl::Duration calm = absl::Minutes(1);
    HandshakeTurns::Limits handshakes = {};
    AbandonedCalls::Limits abandoned = {};
  };
  // Whom to pass connections to; null: such connections are closed.
  struct Acceptors {
    Acceptor* tls = nullptr;
    Acceptor* plain_text = nullptr;
  };

  // Begins to accept from a socket that listens and does not block. Strangers and refusals outlive
  // it.
  ConnectionListener(FileDescriptor listener, const Acceptors& acceptors, const Limits& limits,
                     StrangerConnections& strangers, Refusals& refusals);
  // Ends the thread, and closes what was not passed on.
  ~ConnectionListener();

 private:
  struct Client {
    FileDescriptor socket;
    std::string host, end;
  };
  struct Silent {
    Client client;
    absl::Time since;
  };

  void Run();
  // When there is something to do without an event; infinite: nothing.
  absl::Time next_at(absl::Time now) const;
  void DoWhatIsDue(absl::Time now);
  void AcceptAll();
  // Without descriptors the kernel would report the listener as readable again and again.
  void SetAccepting(bool accepting);
  void Add(Client client);
  // Gives the connection a descriptor that is not reserved, if need be that of the oldest silent
  // one. Returns false if there is none.
  bool FindDescriptor(FileDescriptor& socket);
  bool HasRoom(const std::string& host);
  void Refused(const absl::Status& why);
  void Watch(int fd);
  // Passes on a connection that has spoken, or closes one that has ended.
  void Heard(int fd, uint32_t events);
  void PassOn(int fd, Acceptor& acceptor);
  // Returns false, and logs it, if there is no second descriptor for the connection. Closes a
  // silent one for it.
  bool AddStranger(const Client& client);
  // From now on its events only say that the other side, or both sides, have ended it. Returns
  // false if gRPC has closed the one that it was given under this number.
  bool WatchForEnd(int fd) const;
  // The connection that gRPC was given under this number has ended.
  void Ended(int fd);
  void ResetThoseWhoDoNotRead(absl::Time now);
  void ResetThoseWhoAbandonCalls(absl::Time now);
  // Resets a connection that gRPC was given. Without a free descriptor, the next look does.
  void Reset(int fd, const absl::Status& why);
  // Passes on those whose turn it is.
  void BeginHandshakes(absl::Time now);
  void Close(std::map<int, Silent>::iterator silent);
  void CloseOverdue(absl::Time now);
  void CloseOldestOf(const std::string& host);

  const FileDescriptor listener_;
  const Acceptors acceptors_;
  const Limits limits_;
  const FileDescriptor epoll_;
  const FileDescriptor end_;  // an eventfd, readable once the thread must end
  StrangerConnections& strangers_;
  Refusals& refusals_;
  absl::Time accept_at_ = absl::InfiniteFuture();  // again
  absl::Time looked_at_ = absl::InfinitePast();    // for overdue ones
  std::map<int, Silent> silent_;
  std::map<std::string, size_t> of_host_;  // how many of them
  HandshakeTurns turns_;
  bool held_back_ = false;         // the next turns are those of hosts that owe
  std::map<int, Client> waiting_;  // for their turns
  OpenConnections open_;           // gRPC closes them
  UnreadAnswers unread_;           // of them
  absl::Time unread_looked_at_ = absl::InfinitePast();
  AbandonedCalls abandoned_;  // on them
  RepeatedReason full_;
  absl::Time refused_at_ = absl::InfinitePast();  // the last time; in the past: `full_` is calm
  std::jthread thread_;                           // last: it uses the others
};

}  // namespace dp::server

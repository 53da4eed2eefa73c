#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/security/revocations.h"
#include "grpcpp/grpcpp.h"
#include "server/access/authority.h"
#include "server/access/gate.h"
#include "server/callers/store_callers.h"
#include "server/connections/connection_listener.h"
#include "server/connections/listen_address.h"
#include "server/driver/driver.h"
#include "server/driver/health_watch.h"
#include "server/logs/log_thread.h"
#include "server/parameters/parameters.h"
#include "server/rpc/call_watch.h"

namespace dp::server {

// The memory quota of gRPC in servers without --memory-max.
inline constexpr size_t kGrpcBytesMax = size_t{512} << 20;

// How a server proves itself, and checks its callers. The files are in PEM, and are read again when
// they change; open connections go on.
struct TlsOptions {
  std::string chain_file;    // the server's certificate, first
  std::string key_file;      // its private key
  std::string clients_file;  // the authorities whose certificates callers may show
  std::string crl_dir = {};  // revocation lists of these, named by OpenSSL's hash; empty: none
  std::shared_ptr<const security::Revocations> revocations = nullptr;  // by these lists
  const Authority* authority = nullptr;  // signs certificates, and makes tokens
  // Whether the server's certificate is of that authority. A client with a token, or with a
  // certificate that the authority gives out, trusts no other.
  bool own_certificate = true;
};

// How long a connection may last. A caller shows the certificate of its last handshake, so a
// renewed one counts with the next connection. The server asks the client to connect anew: calls
// that are open go on, and further ones use the new connection.
struct ConnectionAge {
  // Short beside the days for which a renewed certificate of this coordinator and the former one
  // both count.
  absl::Duration max = absl::Hours(24);
  // How long open calls may last then: longer than any call but a stream. Clients begin the waits
  // of a stream again.
  absl::Duration grace = absl::Minutes(10);
};

struct ServerOptions {
  // The host at which ranks find a store that the coordinator serves (DirectStores); nullopt: jobs
  // with such stores are rejected.
  std::optional<std::string> direct_stores = {};
  size_t grpc_bytes_max = kGrpcBytesMax;
  size_t connections_of_host = ConnectionListener::Limits().open_of_host;
  ConnectionAge connection_age = {};
  CallLimits calls = {};
  OpenCalls::Limits open_calls = {};
  std::optional<TlsOptions> tls = {};
  Parameters* parameters = nullptr;  // outlives the server; null: none are served
  bool plain_text = true;            // also serves callers in plain text, who may do everything
};

// The gRPC front of the coordinator: every service of proto/dp/v1 and grpc.health.v1. Driver and
// log thread must outlive it. Call Start and Stop on one thread.
class Server {
 public:
  // Errors: Unavailable the address cannot be listened on; names the address and the remedy.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ListenAddress& address, Driver& driver,
                                                       LogThread& logs,
                                                       const ServerOptions& options = {});
  ~Server();

  // Has the port that was chosen.
  const ListenAddress& address() const { return address_; }
  // For other parts that serve stores of jobs. On the driver's thread.
  StoreCallers& callers() { return callers_; }

  // Rejects further calls and returns when none is in flight. Stop the driver first, which answers
  // the calls that wait. Idempotent.
  void Stop();

 private:
  Server(const ListenAddress& address, Driver& driver, LogThread& logs,
         const ServerOptions& options);
  std::vector<std::unique_ptr<grpc::Service>> MakeServices(LogThread& logs,
                                                           const ServerOptions& options);
  // Makes gRPC's server, which listens nowhere itself. Returns who takes its connections.
  ConnectionListener::Acceptors Build(const ServerOptions& options);
  void StopPolling();
  // From now on the health of every service is that of the driver; that of Logs also needs stored
  // logs.
  void WatchHealth(Driver& driver, const LogThread& logs);

  ListenAddress address_;
  StoreCallers callers_;
  Gate gate_;
  CallWatch watch_;
  std::unique_ptr<ConnectionListener::Acceptor> tls_;
  std::unique_ptr<ConnectionListener::Acceptor> plain_text_;
  const std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;                 // its calls use the services
  std::unique_ptr<grpc::ServerCompletionQueue> polled_;  // gets no events
  std::vector<std::jthread> pollers_;
  std::unique_ptr<ConnectionListener> listener_;
  std::unique_ptr<HealthWatch> health_;  // last: it reports to server_
};

}  // namespace dp::server

#include "server/rpc/server.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/grpc_locks.h"
#include "base/limits.h"
#include "base/status.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "server/access/header_check.h"
#include "server/convert/convert_call.h"
#include "server/rpc/services.h"

namespace dp::server {
namespace {

// How long calls that nobody answers any more may delay the end.
constexpr std::chrono::seconds kStopWithin(1);

// How soon new certificates count.
constexpr unsigned kReadAgainSeconds = 1;

constexpr char kLogsService[] = "dp.v1.Logs";

// Open calls on one connection. A daemon has tens of them, and a program that follows many jobs has
// hundreds; further calls wait at the client.
constexpr int kStreamsMax = 4096;

// The metadata of a call: a rank's token, and what gRPC adds; 1 KiB together.
constexpr int kMetadataBytesMax = 8 << 10;

// From the first byte of a connection until its client has spoken TLS and HTTP/2. gRPC allows 120 s
// otherwise, for which a silent client would hold a descriptor.
constexpr int kHandshakeMs = 10'000;

// A call that waits as long as it may still has time for its answer.
static_assert(OpenCalls::Limits().lasts > kWaitMax);

// gRPC handles all that it has read from a connection before it serves another. A hundred resets or
// pings cost more than a large message, so it reads little at once: as much as at first without
// this.
constexpr int kReadBytes = 8 << 10;

// gRPC serves all connections by half as many threads as there are processors, at least two. A
// connection from which bytes come faster than they are handled keeps one of them. These further
// threads serve the others meanwhile; each costs a few pages of memory.
constexpr int kPollers = 6;

// A client that sends pings faster than it may is disconnected after so many.
constexpr int kPingStrikes = 2;

// A call that waits as long as it may ends by itself before its connection is closed.
static_assert(OpenCalls::Limits().lasts < ConnectionAge().grace);

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

void SetTransport(grpc::ServerBuilder& builder, const ServerOptions& options) {
  grpc::ResourceQuota quota("coordinator");
  quota.Resize(options.grpc_bytes_max);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
#ifdef GRPC_ARG_ABSOLUTE_MAX_METADATA_SIZE  // gRPC 1.55 and later reject by chance below this
  builder.AddChannelArgument(GRPC_ARG_ABSOLUTE_MAX_METADATA_SIZE, kMetadataBytesMax);
#endif
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytes);
  builder.SetMaxSendMessageSize(kMessageBytesMax);
  // Otherwise two coordinators could listen on one port, and each would get a part of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients may ping during their long polls, and between calls, every 5 s.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kPingStrikes);
  // A peer that vanished holds its parked calls no longer than this.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                             Milliseconds(options.connection_age.max));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             Milliseconds(options.connection_age.grace));
}

// Ends the handshakes of callers whose chain a revocation list concerns.
class ChainVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit ChainVerifier(std::shared_ptr<const security::Revocations> revocations)
      : revocations_(std::move(revocations)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* status) override {
    // A server's chain lacks the caller's own certificate.
    for (const grpc::string_ref& pem : {request->peer_cert(), request->peer_cert_full_chain()}) {
      if (revocations_->RevokeAnyOf({pem.data(), pem.size()}))
        *status = {grpc::StatusCode::UNAUTHENTICATED, "a certificate of the chain is revoked"};
    }
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::shared_ptr<const security::Revocations> revocations_;
};

// Callers may show a certificate, and need not: ranks and those who join have tokens.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const TlsOptions& tls, Gate& gate) {
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          tls.key_file, tls.chain_file, tls.clients_file, kReadAgainSeconds));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  if (!tls.crl_dir.empty()) options.set_crl_directory(tls.crl_dir);
  if (tls.revocations != nullptr)
    options.set_certificate_verifier(
        grpc::experimental::ExternalCertificateVerifier::Create<ChainVerifier>(tls.revocations));
  auto credentials = grpc::experimental::TlsServerCredentials(options);
  credentials->SetAuthMetadataProcessor(std::make_shared<HeaderCheck>(gate));
  return credentials;
}

Gate::Options GateOptions(const ServerOptions& options) {
  Gate::Options gate{.plain_text = options.plain_text, .calls = options.calls};
  if (options.tls.has_value()) {
    gate.token_key = options.tls->authority->tokens();
    gate.sealing_key = options.tls->authority->secrets();
  }
  return gate;
}

int PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  DP_CHECK(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const in_port_t port = address.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                             : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return ntohs(port);
}

}  // namespace

Server::Server(const ListenAddress& address, Driver& driver, LogThread& logs,
               const ServerOptions& options)
    : address_(address),
      gate_(driver, GateOptions(options)),
      watch_(options.open_calls),
      services_(MakeServices(logs, options)) {}

std::vector<std::unique_ptr<grpc::Service>> Server::MakeServices(LogThread& logs,
                                                                 const ServerOptions& options) {
  const std::optional<std::string>& direct_stores = options.direct_stores;
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(MakeAccessService(gate_, options.tls ? options.tls->authority : nullptr,
                                       options.tls && options.tls->own_certificate));
  services.push_back(MakeJobsService(gate_, logs, direct_stores.has_value()));
  services.push_back(MakeWorkersService(gate_, callers_.clients, direct_stores.value_or("")));
  services.push_back(MakeWorldsService(gate_));
  services.push_back(MakeStoreService(gate_, callers_));
  services.push_back(MakeLogsService(gate_, logs));
  services.push_back(MakeCheckpointsService(gate_));
  if (options.parameters != nullptr) {
    services.push_back(MakeParametersService(gate_, *options.parameters));
  }
  return services;
}

Server::~Server() { Stop(); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ListenAddress& address, Driver& driver,
                                                      LogThread& logs,
                                                      const ServerOptions& options) {
  DP_ASSIGN_OR_RETURN(FileDescriptor listener, address.Listen("--listen"));
  SearchNoDeadlocksInGrpc();
  std::unique_ptr<Server> server(new Server(address, driver, logs, options));
  server->address_.port = PortOf(listener.get());
  const ConnectionListener::Acceptors acceptors = server->Build(options);
  if (server->server_ == nullptr) {
    server->StopPolling();
    return absl::InternalError(
        "gRPC cannot start its server; see its messages with GRPC_VERBOSITY=ERROR");
  }
  for (const char* name : {"dp.v1.Access", "dp.v1.Jobs", "dp.v1.Workers", "dp.v1.Worlds",
                           "dp.v1.Store", kLogsService, "dp.v1.Checkpoints"}) {
    server->server_->GetHealthCheckService()->SetServingStatus(name, true);
  }
  if (options.parameters != nullptr) {
    server->server_->GetHealthCheckService()->SetServingStatus("dp.v1.Parameters", true);
  }
  server->WatchHealth(driver, logs);
  ConnectionListener::Limits limits{.open_of_host = options.connections_of_host};
  limits.handshakes.per_second *= std::max(std::thread::hardware_concurrency(), 1u);
  server->listener_ = std::make_unique<ConnectionListener>(
      std::move(listener), acceptors, limits, server->gate_.strangers(), server->gate_.refusals());
  return server;
}

ConnectionListener::Acceptors Server::Build(const ServerOptions& options) {
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  SetTransport(builder, options);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(watch_.Interceptors());
  interceptors.push_back(gate_.Interceptors());
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  if (options.tls.has_value()) {
    tls_ = builder.experimental().AddExternalConnectionAcceptor(
        Type::FROM_FD, TlsCredentials(*options.tls, gate_));
  }
  if (options.plain_text) {
    plain_text_ = builder.experimental().AddExternalConnectionAcceptor(
        Type::FROM_FD, grpc::InsecureServerCredentials());
  }
  for (const auto& service : services_) builder.RegisterService(service.get());
  polled_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  for (int i = 0; i < kPollers; ++i) {
    pollers_.emplace_back([this] {
      pthread_setname_np(pthread_self(), "dp-poller");
      void* tag = nullptr;
      bool ok = false;
      while (polled_->Next(&tag, &ok)) {
      }
    });
  }
  return {.tls = tls_.get(), .plain_text = plain_text_.get()};
}

void Server::WatchHealth(Driver& driver, const LogThread& logs) {
  const auto ask = [&driver](std::function<void()> answered) {
    return driver.Ask([answered](const absl::Status&, const View&) { answered(); }).ok();
  };
  const auto logs_are_stored = [&logs] { return logs.room().ok(); };
  // A coordinator without room for logs does all else, so only the Logs service is unhealthy.
  const auto tell = [service = server_->GetHealthCheckService()](const Health& health) {
    service->SetServingStatus(health.driver);
    service->SetServingStatus(kLogsService, health.driver && health.logs);
  };
  health_ = std::make_unique<HealthWatch>(HealthWatch::Options{}, ask, logs_are_stored, tell);
}

void Server::Stop() {
  if (server_ == nullptr) return;
  health_.reset();
  listener_.reset();
  server_->Shutdown(std::chrono::system_clock::now() + kStopWithin);
  server_->Wait();
  StopPolling();
  server_.reset();
}

void Server::StopPolling() {
  polled_->Shutdown();
  pollers_.clear();
  polled_.reset();
}

}  // namespace dp::server

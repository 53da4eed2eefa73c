#include "server/rpc/server.h"

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/limits.h"
#include "base/status.h"
#include "grpcpp/resource_quota.h"
#include "server/rpc/services.h"

namespace dp::server {
namespace {

// How long calls that nobody answers any more may delay the end.
constexpr std::chrono::seconds kStopWithin(1);

constexpr char kLogsService[] = "dp.v1.Logs";

// Open calls on one connection. A daemon has tens of them, and a program that follows many jobs has
// hundreds; further calls wait at the client.
constexpr int kStreamsMax = 4096;

void SetTransport(grpc::ServerBuilder& builder, size_t bytes_max) {
  grpc::ResourceQuota quota("coordinator");
  quota.Resize(bytes_max);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsMax);
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.SetMaxSendMessageSize(kMessageBytesMax);
  // Otherwise two coordinators could listen on one port, and each would get a part of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients may ping during their long polls, and between calls, every 5 s.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  // A peer that vanished holds its parked calls no longer than this.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

}  // namespace

Server::Server(const ListenAddress& address, Driver& driver, LogThread& logs,
               const std::optional<std::string>& direct_stores)
    : address_(address), services_(MakeServices(driver, logs, direct_stores)) {}

std::vector<std::unique_ptr<grpc::Service>> Server::MakeServices(
    Driver& driver, LogThread& logs, const std::optional<std::string>& direct_stores) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(MakeJobsService(driver, logs, direct_stores.has_value()));
  services.push_back(MakeWorkersService(driver, callers_.clients, direct_stores.value_or("")));
  services.push_back(MakeWorldsService(driver));
  services.push_back(MakeStoreService(driver, callers_));
  services.push_back(MakeLogsService(driver, logs));
  services.push_back(MakeCheckpointsService(driver));
  return services;
}

Server::~Server() { Stop(); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ListenAddress& address, Driver& driver, LogThread& logs,
    const std::optional<std::string>& direct_stores, size_t grpc_bytes_max) {
  DP_RETURN_IF_ERROR(address.CheckFree("--listen"));
  // gRPC's locks are absl's. As Debian builds these, they look for deadlocks whenever they are
  // taken.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  std::unique_ptr<Server> server(new Server(address, driver, logs, direct_stores));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  SetTransport(builder, grpc_bytes_max);
  builder.AddListeningPort(address.ToString(), grpc::InsecureServerCredentials(),
                           &server->address_.port);
  for (const auto& service : server->services_) builder.RegisterService(service.get());
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address.ToString(),
                                               "; choose another address with --listen"));
  }
  for (const char* name : {"dp.v1.Jobs", "dp.v1.Workers", "dp.v1.Worlds", "dp.v1.Store",
                           kLogsService, "dp.v1.Checkpoints"}) {
    server->server_->GetHealthCheckService()->SetServingStatus(name, true);
  }
  server->WatchHealth(driver, logs);
  return server;
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
  server_->Shutdown(std::chrono::system_clock::now() + kStopWithin);
  server_->Wait();
  server_.reset();
}

}  // namespace dp::server

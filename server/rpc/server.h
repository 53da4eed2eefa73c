#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/callers/store_callers.h"
#include "server/driver/driver.h"
#include "server/driver/health_watch.h"
#include "server/logs/log_thread.h"
#include "server/rpc/listen_address.h"

namespace dp::server {

// The memory quota of gRPC in servers without --memory-max.
inline constexpr size_t kGrpcBytesMax = size_t{512} << 20;

// The gRPC front of the coordinator: every service of proto/dp/v1 and grpc.health.v1, without
// encryption. Driver and log thread must outlive it. Call Start and Stop on one thread.
class Server {
 public:
  // `direct_stores` is the host at which ranks find a store that the coordinator serves
  // (DirectStores); nullopt: jobs with such stores are rejected.
  // Errors: Unavailable the address cannot be listened on; names the address and the remedy.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ListenAddress& address, Driver& driver, LogThread& logs,
      const std::optional<std::string>& direct_stores = {}, size_t grpc_bytes_max = kGrpcBytesMax);
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
         const std::optional<std::string>& direct_stores);
  std::vector<std::unique_ptr<grpc::Service>> MakeServices(
      Driver& driver, LogThread& logs, const std::optional<std::string>& direct_stores);
  // From now on the health of every service is that of the driver; that of Logs also needs stored
  // logs.
  void WatchHealth(Driver& driver, const LogThread& logs);

  ListenAddress address_;
  StoreCallers callers_;
  const std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;  // its calls use the services
  std::unique_ptr<HealthWatch> health_;   // last: it reports to server_
};

}  // namespace dp::server

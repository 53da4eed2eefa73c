#pragma once

#include <memory>
#include <string>

#include "client/connection.h"

namespace dp::client {

// All services over one gRPC channel. Thread-safe. Destroying it while calls are under way is a bug
// of the owner; CancelAll ends them first.
class GrpcConnection final : public JobsConnection,
                             public WorkersConnection,
                             public WorldsConnection,
                             public StoreConnection,
                             public LogsConnection {
 public:
  // `address` is host:port. Connects lazily; an unreachable coordinator shows as Unavailable.
  explicit GrpcConnection(const std::string& address);
  ~GrpcConnection() override;

  // Ends every call under way, and every later one, with Cancelled. Any thread; idempotent.
  void CancelAll();
};

}  // namespace dp::client

#pragma once

#include "dp/v1/worlds.grpc.pb.h"
#include "server/driver/driver.h"

namespace dp::server {

// Serves proto/dp/v1/worlds.proto through the driver. Thread-safe.
class WorldsService final : public v1::Worlds::CallbackService {
 public:
  explicit WorldsService(Driver& driver) : driver_(driver) {}

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const v1::JoinRequest* request,
                                 v1::JoinResponse* response) override;
  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext* context,
                                  const v1::WatchWorldRequest* request,
                                  v1::WatchWorldResponse* response) override;
  grpc::ServerUnaryReactor* CompleteFirstStep(grpc::CallbackServerContext* context,
                                              const v1::CompleteFirstStepRequest* request,
                                              v1::CompleteFirstStepResponse* response) override;
  grpc::ServerUnaryReactor* Accuse(grpc::CallbackServerContext* context,
                                   const v1::AccuseRequest* request,
                                   v1::AccuseResponse* response) override;

 private:
  Driver& driver_;
};

}  // namespace dp::server

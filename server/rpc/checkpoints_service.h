#pragma once

#include "dp/v1/checkpoints.grpc.pb.h"
#include "server/driver/driver.h"

namespace dp::server {

// Serves proto/dp/v1/checkpoints.proto through the driver. Thread-safe.
class CheckpointsService final : public v1::Checkpoints::CallbackService {
 public:
  explicit CheckpointsService(Driver& driver) : driver_(driver) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* context,
                                     const v1::RegisterCheckpointRequest* request,
                                     v1::RegisterCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListCheckpointsRequest* request,
                                 v1::ListCheckpointsResponse* response) override;
  grpc::ServerUnaryReactor* RegisterWeights(grpc::CallbackServerContext* context,
                                            const v1::RegisterWeightsRequest* request,
                                            v1::RegisterWeightsResponse* response) override;

 private:
  Driver& driver_;
};

}  // namespace dp::server

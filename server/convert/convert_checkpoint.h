#pragma once

#include "dp/v1/checkpoints.pb.h"
#include "server/core/checkpoints.h"

// Converts checkpoints and weights between the wire and the core. Pure; any thread.

namespace dp::server {

v1::Checkpoint ToProto(const core::Checkpoint& checkpoint);
v1::Weights ToProto(const core::Weights& weights);

// Newest first.
void Fill(const core::Checkpoints& checkpoints,
          google::protobuf::RepeatedPtrField<v1::Checkpoint>* protos);

core::RegisterCheckpoint ToCommand(const v1::RegisterCheckpointRequest& request);
core::RegisterWeights ToCommand(const v1::RegisterWeightsRequest& request);

}  // namespace dp::server

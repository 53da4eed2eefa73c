#include "server/convert/convert_checkpoint.h"

#include "server/convert/convert_call.h"

namespace dp::server {

v1::Checkpoint ToProto(const core::Checkpoint& checkpoint) {
  v1::Checkpoint proto;
  proto.set_step(checkpoint.step);
  proto.set_generation(checkpoint.generation.value());
  proto.set_path(checkpoint.path);
  proto.set_sha256(checkpoint.sha256);
  proto.set_bytes(checkpoint.bytes);
  *proto.mutable_at() = ToProto(checkpoint.at);
  return proto;
}

v1::Weights ToProto(const core::Weights& weights) {
  v1::Weights proto;
  proto.set_path(weights.path);
  proto.set_sha256(weights.sha256);
  proto.set_bytes(weights.bytes);
  if (weights.modified_at) *proto.mutable_modified_at() = ToProto(*weights.modified_at);
  return proto;
}

void Fill(const core::Checkpoints& checkpoints,
          google::protobuf::RepeatedPtrField<v1::Checkpoint>* protos) {
  for (auto it = checkpoints.all().rbegin(); it != checkpoints.all().rend(); ++it) {
    *protos->Add() = ToProto(*it);
  }
}

core::RegisterCheckpoint ToCommand(const v1::RegisterCheckpointRequest& request) {
  return {{JobId(request.job()), Generation(request.generation()), request.rank()},
          request.checkpoint().step(),
          request.checkpoint().path(),
          request.checkpoint().sha256(),
          request.checkpoint().bytes(),
          request.keep()};
}

core::RegisterWeights ToCommand(const v1::RegisterWeightsRequest& request) {
  core::RegisterWeights command{
      {JobId(request.job()), Generation(request.generation()), request.rank()},
      request.weights().path(),
      request.weights().sha256(),
      request.weights().bytes()};
  if (request.weights().has_modified_at()) {
    command.modified_at = FromProto(request.weights().modified_at());
  }
  return command;
}

}  // namespace dp::server

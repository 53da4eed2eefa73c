#include "server/convert/convert_checkpoint.h"

#include "base/limits.h"
#include "base/utf8.h"
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
  proto.set_best(checkpoint.best);
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
  const core::Checkpoint* best = checkpoints.best();
  for (auto it = checkpoints.all().rbegin(); it != checkpoints.all().rend(); ++it) {
    *protos->Add() = ToProto(*it);
    if (best == nullptr || best->path != it->path) continue;
    protos->rbegin()->set_best(best->best);
    best = nullptr;
  }
  if (best != nullptr) *protos->Add() = ToProto(*best);
}

core::RegisterCheckpoint ToCommand(const v1::RegisterCheckpointRequest& request) {
  return {{JobId(request.job()), Generation(request.generation()), request.rank()},
          request.checkpoint().step(),
          request.checkpoint().path(),
          request.checkpoint().sha256(),
          request.checkpoint().bytes(),
          request.keep(),
          std::string(Utf8Prefix(request.checkpoint().best(), kLastLineBytesMax))};
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

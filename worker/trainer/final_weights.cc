#include "worker/trainer/final_weights.h"

#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status.h"
#include "client/retry_loop.h"
#include "worker/trainer/durable_file.h"
#include "worker/trainer/fault_point.h"
#include "worker/trainer/safetensors.h"
#include "worker/trainer/sha256.h"
#include "worker/trainer/state_dict.h"

namespace dp::trainer {
namespace {

// A training that is done is worth a long wait.
constexpr absl::Duration kRegisterWeightsWithin = absl::Hours(24);

std::string Encode(const RankModel& model) {
  std::vector<float> values(static_cast<size_t>(model.layout.size));
  model.device->Read(model.values->span(), absl::MakeSpan(values));
  return EncodeSafetensors(StateDict(model.layout, values));
}

}  // namespace

absl::Status PublishWeights(const std::string& path, const RankModel& model,
                            const Environment& environment,
                            client::CheckpointsConnection& connection, const Clock& clock,
                            client::Pause& pause) {
  const std::string encoded = Encode(model);
  // Not its successor's file, should this generation be over without knowing.
  const std::string suffix = absl::StrCat(".generation-", environment.generation.value(), ".tmp");
  DP_ASSIGN_OR_RETURN(const std::string temporary, WriteBeside(path, encoded, suffix));
  ReachFaultPoint("publish");
  v1::RegisterWeightsRequest request;
  request.set_job(environment.job.value());
  request.set_generation(environment.generation.value());
  request.set_rank(environment.rank);
  request.mutable_weights()->set_path(path);
  request.mutable_weights()->set_sha256(Sha256Hex(encoded));
  request.mutable_weights()->set_bytes(static_cast<int64_t>(encoded.size()));
  const absl::Status registered =
      client::RetryLoop(client::RetryPolicy({.deadline = kRegisterWeightsWithin}, EntropySeed()),
                        clock, pause,
                        [&](absl::Duration in) { return connection.RegisterWeights(request, in); })
          .status();
  if (registered.ok()) return PutInPlace(temporary, path);
  unlink(temporary.c_str());
  return registered;
}

}  // namespace dp::trainer

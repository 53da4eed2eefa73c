#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "dp/v1/checkpoints.pb.h"
#include "worker/engine/collectives/reduce/reduction.h"
#include "worker/engine/nn/parameter.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// Whether a training may continue from a checkpoint. `now` is the manifest that the training would
// write itself. Pure.

// Rejects differences that would change the position in the data or the meaning of the tensors. It
// compares tensors, optimizer, seed, number of samples, global batch size, shuffle, dropLast,
// stepsPerEpoch and the schedule of the learning rate. A job with train.ema also needs an average
// of the weights in the checkpoint. Errors: FailedPrecondition names the first that differs, with
// both values; or an order of sums that this release does not know.
absl::Status CheckFits(const v1::CheckpointManifest& checkpoint, const v1::CheckpointManifest& now);

// The order of sums of the training that made the checkpoint. Nullopt: this release does not know
// it, and CheckFits rejects the checkpoint.
std::optional<engine::ReduceOrder> SumOrderOf(const v1::CheckpointManifest& checkpoint);

// Describes differences that are allowed but change the bits from here on. These are the world
// size, train.accumulate, the devices of dp, device, precision, plug-ins and, on CPUs, threads and
// instruction set. Skips fields that an earlier release did not write. Empty if the bits stay the
// same.
std::string OtherBits(const v1::CheckpointManifest& checkpoint, const v1::CheckpointManifest& now);

// The fields that all checkpoints of one rank program share: the job, what must match when a
// checkpoint is read, and what determines the bits. `samples` is the size of the training set,
// `backend` the collectives in use.
v1::CheckpointManifest ManifestOf(const TrainingPlan& plan, const Environment& environment,
                                  const engine::ParameterLayout& layout, int64_t samples,
                                  const std::string& backend);

}  // namespace dp::trainer

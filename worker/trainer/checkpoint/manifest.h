#pragma once

#include <cstdint>

#include "dp/v1/checkpoints.pb.h"
#include "worker/engine/nn/parameter.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// The fields that all checkpoints of one rank program share: the job, what must match when a
// checkpoint is read, and what determines the bits. `samples` is the size of the training set,
// `backend` the collectives in use.
v1::CheckpointManifest ManifestOf(const TrainingPlan& plan, const Environment& environment,
                                  const engine::ParameterLayout& layout, int64_t samples,
                                  const std::string& backend);

}  // namespace dp::trainer

#pragma once

#include <cstdint>

#include "dp/v1/checkpoints.pb.h"
#include "worker/engine/nn/parameter.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/training_plan.h"

namespace dp::trainer {

// What all checkpoints of one rank program have in common: whose they are, what must be the same
// where they are read, and what fixes the bits. `samples` is the size of the training set,
// `backend` the collectives that were chosen.
v1::CheckpointManifest ManifestOf(const TrainingPlan& plan, const Environment& environment,
                                  const engine::ParameterLayout& layout, int64_t samples,
                                  const std::string& backend);

}  // namespace dp::trainer

#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/engine/device/device.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// Opens the device that the daemon has chosen for this rank: the CPU with the plan's threads, or
// the first visible GPU. With several replicas, CPUs that look like one, each with the plan's
// threads. Errors: FailedPrecondition the GPU cannot be used, with what to look at.
absl::StatusOr<std::unique_ptr<engine::Device>> OpenRankDevice(const Environment& environment,
                                                               const TrainingPlan& plan);

// Adds to a GPU's out-of-memory error which fields of the job file to change. This rank takes
// `samples` samples of the plan in each step. Returns any other status unchanged.
absl::Status WithMemoryRemedy(const absl::Status& status, const Environment& environment,
                              const TrainingPlan& plan, int samples);

}  // namespace dp::trainer

#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/engine/device/device.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/training_plan.h"

namespace dp::trainer {

// Opens what this rank computes on, as its daemon has decided: the CPU with `threads` threads, or
// the first GPU that it is shown. Errors: FailedPrecondition the GPU cannot be used, with what to
// look at.
absl::StatusOr<std::unique_ptr<engine::Device>> OpenRankDevice(const Environment& environment,
                                                               int threads);

// What a device with too little memory for `samples` samples of the plan says, with the field of
// the job file to lower; any other status as it is.
absl::Status WithMemoryRemedy(const absl::Status& status, const Environment& environment,
                              const TrainingPlan& plan, int samples);

}  // namespace dp::trainer

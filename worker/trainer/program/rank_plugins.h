#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "store/store.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// Loads the libraries that the plan's layers name, and notes their hashes in the plan. Errors:
// NotFound or InvalidArgument names the layer, the library, what is wrong and a remedy.
absl::Status LoadPlugins(TrainingPlan& plan);

// Compares the hashes of all ranks with those of rank 0, through the store of their generation. A
// plan without plug-ins does not use the store. Nobody else uses its keys that begin with
// "plugins/". Errors: InvalidArgument names this rank, its worker, the library and both hashes.
// Also the store's; DeadlineExceeded names rank 0, which has not published its hashes.
absl::Status AgreeOnPlugins(Store& store, const Environment& environment, const TrainingPlan& plan,
                            absl::Duration timeout);

}  // namespace dp::trainer

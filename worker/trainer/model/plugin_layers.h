#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// Loads the libraries that the plan's layers name. Calls `loaded` with each of these layers, whose
// error counts as the loading's. Errors: NotFound or InvalidArgument names the layer, the library,
// what is wrong and a remedy.
absl::Status LoadPluginLayers(TrainingPlan& plan,
                              absl::FunctionRef<absl::Status(const model::Plugin& plugin)> loaded);

}  // namespace dp::trainer

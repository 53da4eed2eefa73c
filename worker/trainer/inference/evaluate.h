#pragma once

#include "absl/status/statusor.h"
#include "dp/v1/inference.pb.h"

namespace dp::trainer {

// Evaluates trained weights on a test set, on this host's CPU. With the threads of the training, on
// a CPU of the same instruction set, the result has the bits of the training's own evaluation.
// Blocks. Errors: those of LoadWeights and of the data sets; InvalidArgument what does not fit, and
// the remedy.
absl::StatusOr<v1::EvaluateResponse> EvaluateTrained(const v1::EvaluateRequest& request);

}  // namespace dp::trainer

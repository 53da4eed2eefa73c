#pragma once

#include "absl/status/statusor.h"
#include "dp/v1/inference.pb.h"

namespace dp::trainer {

// Applies a trained model to inputs, on this host's CPU. Gives classes with their probabilities,
// values, or texts that go on. Blocks.
// Errors: those of LoadWeights and of the inputs' readers; InvalidArgument what does not fit, and
// the remedy.
absl::StatusOr<v1::PredictResponse> PredictTrained(const v1::PredictRequest& request);

}  // namespace dp::trainer

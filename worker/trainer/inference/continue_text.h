#pragma once

#include "absl/status/statusor.h"
#include "dp/v1/inference.pb.h"
#include "worker/trainer/inference/trained_weights.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// Lets a language model go on with each input of the request, token after token. The model sees the
// last `context` tokens. Equal requests give equal texts on CPUs of one instruction set.
// Errors: InvalidArgument an input without a token; a model that attends to later tokens; tokens
// without a tokenizer; others as LoadModel and OpenBpeTokenizer.
absl::StatusOr<v1::PredictResponse> ContinueTexts(const v1::PredictRequest& request,
                                                  const LoadedWeights& weights,
                                                  const TrainingPlan& plan);

}  // namespace dp::trainer

#pragma once

#include "absl/status/statusor.h"
#include "proto/job/classifier_check.h"
#include "worker/engine/data/dataset.h"
#include "worker/trainer/inference/trained_weights.h"
#include "worker/trainer/model/rank_model.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// The plan of the job of `weights`, for this host's CPU: with float32 where CPUs, or this one, do
// not compute in the training's precision. Threads above 0 of `asked` take the place of the job's.
// Errors: InvalidArgument names the field; FailedPrecondition a model with a plug-in that `asked`
// does not let load; those of LoadPluginLayers.
absl::StatusOr<TrainingPlan> PlanInference(const v1::JobSpec& job, const v1::TrainedWeights& asked);

// The form of samples that a model was trained on, as far as the weights and the plan tell it. The
// shape is empty where they do not.
SampleForm FormFor(const TrainingPlan& plan, const LoadedWeights& weights);

// A model on the CPU with these weights, without gradients to speak of and without an optimizer,
// for batches of `rows` samples of this form. Call on the thread that uses it. Errors:
// InvalidArgument the model does not fit the samples, or the weights the model.
absl::StatusOr<RankModel> LoadModel(const TrainingPlan& plan, const LoadedWeights& weights,
                                    const SampleForm& form, int rows);

}  // namespace dp::trainer

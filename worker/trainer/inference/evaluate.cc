#include "worker/trainer/inference/evaluate.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/model/shape.h"
#include "base/status.h"
#include "worker/trainer/inference/data_places.h"
#include "worker/trainer/inference/inference_model.h"
#include "worker/trainer/inference/trained_weights.h"
#include "worker/trainer/loop/step_parts.h"
#include "worker/trainer/loop/train_loop.h"
#include "worker/trainer/model/evaluation.h"
#include "worker/trainer/model/open_data.h"

namespace dp::trainer {
namespace {

absl::Status CheckShape(const char* of, const model::Shape& test, const model::Shape& trained) {
  if (trained.empty() || test == trained) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      of, " of the test have the shape ", model::ShapeText(test), ", those of the model ",
      model::ShapeText(trained), "; give a test set of the model's kind with --data"));
}

absl::Status CheckAnswers(const RankModel& model, const engine::Dataset& test) {
  const int64_t outputs = model.layers.back().out.back();
  const bool labels = std::holds_alternative<engine::CrossEntropyLoss>(model.loss);
  if (labels && test.has_targets()) {
    return absl::InvalidArgumentError(
        "the test set has targets, but the loss of the model compares with labels; give --labels");
  }
  if (engine::HasTargets(model.loss) && !test.has_targets()) {
    return absl::InvalidArgumentError(
        "the test set has labels, but the loss of the model compares with targets; give --targets");
  }
  if (!labels || test.classes() <= outputs) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the test has labels up to ", test.classes() - 1,
                                                 ", but the model gives ", outputs,
                                                 " values; give a test set of its classes"));
}

// The form of the training's samples; as far as nothing says it, that of the test's.
absl::StatusOr<SampleForm> FormWith(const TrainingPlan& plan, const LoadedWeights& weights,
                                    const engine::Dataset& test) {
  SampleForm form = FormFor(plan, weights);
  DP_RETURN_IF_ERROR(CheckShape("samples", test.sample_shape(), form.shape));
  DP_RETURN_IF_ERROR(CheckShape("targets", test.target_shape(), form.targets));
  form.shape = test.sample_shape();
  form.targets = test.target_shape();
  if (form.classes == 0) form.classes = test.classes();
  return form;
}

v1::EvaluateResponse ResponseOf(const Evaluation& evaluation) {
  v1::EvaluateResponse response;
  response.set_loss(evaluation.loss);
  response.set_samples(evaluation.samples);
  const engine::Measures& measures = evaluation.measures;
  if (evaluation.accuracy) response.set_accuracy(*evaluation.accuracy);
  if (measures.top5) response.set_top5_accuracy(*measures.top5);
  if (evaluation.perplexity) response.set_perplexity(*evaluation.perplexity);
  if (measures.mean_absolute_error) {
    response.set_mean_absolute_error(*measures.mean_absolute_error);
  }
  if (measures.r2) response.set_r2(*measures.r2);
  for (const int64_t count : measures.confusion) response.add_confusion_matrix(count);
  return response;
}

}  // namespace

absl::StatusOr<v1::EvaluateResponse> EvaluateTrained(const v1::EvaluateRequest& request) {
  DP_ASSIGN_OR_RETURN(LoadedWeights weights, LoadWeights(request.weights()));
  v1::DataSpec& data = *weights.job.mutable_train()->mutable_data();
  DP_RETURN_IF_ERROR(TakePlaces(request.places(), data));
  DP_ASSIGN_OR_RETURN(const TrainingPlan plan, PlanInference(weights.job, request.weights()));
  DP_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Dataset> test, OpenTestSet(plan));
  DP_ASSIGN_OR_RETURN(const SampleForm form, FormWith(plan, weights, *test));
  const int ranks =
      std::max(1, weights.description ? weights.description->ranks() : weights.job.ranks());
  const engine::GlobalBatchSampler sampler = TrainSampler(plan, *test, /*rank=*/0, ranks);
  DP_ASSIGN_OR_RETURN(RankModel model, LoadModel(plan, weights, form, RowsOf(plan, sampler)));
  DP_RETURN_IF_ERROR(CheckAnswers(model, *test));
  DP_ASSIGN_OR_RETURN(const Evaluation evaluation,
                      EvaluateAlone(model, *test, EvaluationBatchOf(plan, sampler, ranks), ranks,
                                    {.prefetch_threads = plan.data.prefetch_threads,
                                     .confusion = plan.confusion_matrix}));
  v1::EvaluateResponse response = ResponseOf(evaluation);
  response.set_precision(NameOf(plan.precision));
  return response;
}

}  // namespace dp::trainer

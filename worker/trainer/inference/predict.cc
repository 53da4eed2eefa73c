#include "worker/trainer/inference/predict.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/trainer/inference/continue_text.h"
#include "worker/trainer/inference/inference_model.h"
#include "worker/trainer/inference/input_samples.h"
#include "worker/trainer/inference/sample_token.h"
#include "worker/trainer/inference/trained_weights.h"

namespace dp::trainer {
namespace {

// Samples that are computed at once; more would need more memory and be no faster.
constexpr size_t kPredictedAtOnce = 32;

engine::Normalization NormalizationOf(const TrainingPlan& plan) {
  if (const auto* arrays = std::get_if<engine::ArrayDatasetOptions>(&plan.data.source)) {
    return arrays->normalization;
  }
  if (const auto* folder = std::get_if<engine::FolderDatasetOptions>(&plan.data.source)) {
    return folder->normalization;
  }
  if (const auto* formula = std::get_if<engine::SyntheticDatasetOptions>(&plan.data.source)) {
    return formula->normalization;
  }
  return {};
}

class Predictor {
 public:
  Predictor(const v1::PredictRequest& request, LoadedWeights weights, const TrainingPlan& plan)
      : request_(request), weights_(std::move(weights)), plan_(plan) {}

  absl::StatusOr<v1::PredictResponse> Run() {
    SampleForm form = FormFor(plan_, weights_);
    DP_ASSIGN_OR_RETURN(const InputSamples inputs,
                        ReadInputs({request_.inputs().begin(), request_.inputs().end()},
                                   {.shape = form.shape,
                                    .normalization = NormalizationOf(plan_),
                                    .csv = weights_.job.train().data().csv()}));
    form.shape = inputs.shape;
    const size_t rows = std::min(inputs.samples.size(), kPredictedAtOnce);
    DP_ASSIGN_OR_RETURN(RankModel model, LoadModel(plan_, weights_, form, static_cast<int>(rows)));
    v1::PredictResponse response;
    for (size_t first = 0; first < inputs.samples.size(); first += rows) {
      const size_t count = std::min(rows, inputs.samples.size() - first);
      DP_RETURN_IF_ERROR(PredictBatch(model, absl::MakeSpan(inputs.samples).subspan(first, count),
                                      rows, response));
    }
    return response;
  }

 private:
  absl::Status PredictBatch(RankModel& model, absl::Span<const InputSample> samples, size_t rows,
                            v1::PredictResponse& response) const {
    const size_t elements = samples[0].values.size();
    const auto outputs = static_cast<size_t>(model::ElementCount(model.layers.back().out));
    std::vector<float> values(rows * elements), results(rows * outputs);
    for (size_t i = 0; i < samples.size(); ++i) {
      std::copy(samples[i].values.begin(), samples[i].values.end(), values.begin() + i * elements);
    }
    // The loss of these answers is not looked at.
    const std::vector<int32_t> labels(rows);
    const std::vector<float> targets(rows * outputs);
    std::vector<int64_t> numbers(rows);
    std::iota(numbers.begin(), numbers.end(), 0);
    model.network->Forward({.images = values,
                            .labels = labels,
                            .samples = numbers,
                            .count = static_cast<int>(samples.size()),
                            .targets = targets},
                           engine::Mode::kEvaluate);
    model.network->ReadLogits(absl::MakeSpan(results));
    DP_RETURN_IF_ERROR(model.device->status());
    for (size_t i = 0; i < samples.size(); ++i) {
      v1::Prediction& prediction = *response.add_predictions();
      prediction.set_input(samples[i].input);
      prediction.set_sample(samples[i].number);
      AddOutputs(absl::MakeConstSpan(results).subspan(i * outputs, outputs), prediction);
    }
    return absl::OkStatus();
  }

  // Outputs of a binary cross-entropy are logits, and its targets chances.
  void AddOutputs(absl::Span<const float> outputs, v1::Prediction& prediction) const {
    if (std::holds_alternative<engine::CrossEntropyLoss>(plan_.loss)) {
      return AddClasses(outputs, prediction);
    }
    const bool chances = std::holds_alternative<engine::BceLoss>(plan_.loss);
    for (const float output : outputs) {
      prediction.add_values(chances ? 1 / (1 + std::exp(-static_cast<double>(output))) : output);
    }
  }

  void AddClasses(absl::Span<const float> logits, v1::Prediction& prediction) const {
    const std::vector<double> probabilities = Softmax(logits);
    std::vector<int> classes(probabilities.size());
    std::iota(classes.begin(), classes.end(), 0);
    const size_t shown = std::min(classes.size(), static_cast<size_t>(request_.classes_max()));
    std::partial_sort(classes.begin(), classes.begin() + static_cast<ptrdiff_t>(shown),
                      classes.end(), [&](int a, int b) {
                        return std::pair(-probabilities[a], a) < std::pair(-probabilities[b], b);
                      });
    for (size_t i = 0; i < shown; ++i) {
      v1::ClassProbability& one = *prediction.add_classes();
      one.set_number(classes[i]);
      one.set_probability(probabilities[classes[i]]);
      if (weights_.description && classes[i] < weights_.description->class_names_size()) {
        one.set_name(weights_.description->class_names(classes[i]));
      }
    }
  }

  const v1::PredictRequest& request_;
  const LoadedWeights weights_;
  const TrainingPlan& plan_;
};

}  // namespace

absl::StatusOr<v1::PredictResponse> PredictTrained(const v1::PredictRequest& request) {
  DP_ASSIGN_OR_RETURN(LoadedWeights weights, LoadWeights(request.weights()));
  DP_ASSIGN_OR_RETURN(const TrainingPlan plan, PlanInference(weights.job, request.weights()));
  if (TokensPerSample(plan) > 0) return ContinueTexts(request, weights, plan);
  return Predictor(request, std::move(weights), plan).Run();
}

}  // namespace dp::trainer

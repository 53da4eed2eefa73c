#include "worker/trainer/inference/inference_model.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/trainer/checkpoint/initial_weights.h"
#include "worker/trainer/model/plugin_layers.h"

namespace dp::trainer {
namespace {

bool ComputesHere(engine::Precision precision) {
  if (precision == engine::Precision::kBfloat16) return engine::CpuHasBfloat16();
  return precision == engine::Precision::kFloat32;
}

absl::Status CheckNoPlugin(absl::Span<const model::LayerSpec> layers) {
  for (const model::LayerSpec& layer : layers) {
    const auto* plugin = std::get_if<model::Plugin>(&layer.kind);
    if (plugin == nullptr) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the model has a layer of the plug-in ", plugin->library,
                     ", and weights or a job must not choose which code runs; name the job file "
                     "of the model, and so the library, with --model"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainingPlan> PlanInference(const v1::JobSpec& job,
                                           const v1::TrainedWeights& asked) {
  DP_ASSIGN_OR_RETURN(TrainingPlan plan, PlanTraining(job));
  DP_RETURN_IF_ERROR(
      asked.load_plugins()
          ? LoadPluginLayers(plan, [](const model::Plugin&) { return absl::OkStatus(); })
          : CheckNoPlugin(plan.layers));
  if (!ComputesHere(plan.precision)) plan.precision = engine::Precision::kFloat32;
  if (asked.threads() > 0) plan.threads = asked.threads();
  return plan;
}

SampleForm FormFor(const TrainingPlan& plan, const LoadedWeights& weights) {
  SampleForm form{.classes = plan.data.classes, .exactly = plan.data.classes > 0};
  if (const auto* text = std::get_if<engine::TokenDatasetOptions>(&plan.data.source)) {
    form.shape = {text->context};
    form.classes = text->vocabulary;
  }
  if (const auto* folder = std::get_if<engine::FolderDatasetOptions>(&plan.data.source)) {
    form.shape = {folder->channels, folder->rows, folder->columns};
  }
  if (!weights.description) return form;
  const v1::TrainedModel& model = *weights.description;
  form.shape = {model.sample_shape().begin(), model.sample_shape().end()};
  form.targets = {model.target_shape().begin(), model.target_shape().end()};
  form.classes = model.classes();
  return form;
}

absl::StatusOr<RankModel> LoadModel(const TrainingPlan& plan, const LoadedWeights& weights,
                                    const SampleForm& form, int rows) {
  RankModel model;
  model.loss = plan.loss;
  DP_ASSIGN_OR_RETURN(model.device, engine::OpenCpu(plan.threads));
  DP_ASSIGN_OR_RETURN(model.layers, CheckLayers(plan, form));
  model.layout = engine::LayOut(model.layers);
  std::vector<float> values(static_cast<size_t>(model.layout.size));
  const absl::Status taken =
      TakeTrainedWeights(weights.tensors, model.layers, absl::MakeSpan(values));
  if (!taken.ok()) {
    return absl::Status(taken.code(), absl::StrCat(weights.path, ": ", taken.message()));
  }
  DP_ASSIGN_OR_RETURN(model.values, model.device->Allocate(model.layout.size));
  model.device->Write(values, model.values->span());
  DP_ASSIGN_OR_RETURN(model.gradients, model.device->Allocate(model.layout.size));
  const engine::NetworkOptions options = {
      .batch_size = rows, .precision = plan.precision, .loss = plan.loss};
  DP_ASSIGN_OR_RETURN(
      model.network,
      model.device->Compile(model.layers, options, model.values->span(), model.gradients->span()));
  return model;
}

}  // namespace dp::trainer

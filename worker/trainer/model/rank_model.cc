#include "worker/trainer/model/rank_model.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "proto/job/evaluation_check.h"

namespace dp::trainer {
namespace {

engine::ParameterLayout WithTail(engine::ParameterLayout layout) {
  layout.parameters.push_back({.name = "tail",
                               .shape = {engine::kStepTailSize},
                               .offset = layout.size,
                               .size = engine::kStepTailSize});
  layout.size += engine::kStepTailSize;
  return layout;
}

class BorrowedArray : public engine::Array {
 public:
  explicit BorrowedArray(absl::Span<float> memory) : memory_(memory) {}
  absl::Span<float> span() override { return memory_; }

 private:
  const absl::Span<float> memory_;
};

absl::Status InitializeValues(const TrainingPlan& plan, RankModel& model) {
  std::vector<float> initial(static_cast<size_t>(model.layout.size));
  engine::Initialize(model.layout, plan.seed, absl::MakeSpan(initial));
  DP_ASSIGN_OR_RETURN(model.values, model.device->Allocate(model.layout.size));
  model.device->Write(initial, model.values->span());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<model::CheckedLayer>> FitLayers(const TrainingPlan& plan,
                                                           const SampleForm& form) {
  if (TokensPerSample(plan) > 0) {
    return model::CheckLanguageModel(plan.layers, static_cast<int>(form.shape[0]), form.classes);
  }
  return CheckFits(plan.layers, form, std::holds_alternative<engine::NormLoss>(plan.loss));
}

}  // namespace

absl::Span<float> RankModel::result() const {
  if (!average_evaluates) return values->span();
  const engine::OptimizerState average = optimizer->state().back();
  DP_CHECK(average.name == engine::kAverageName);
  return average.values;
}

absl::Span<float> RankModel::tail() const {
  return gradients->span().subspan(static_cast<size_t>(layout.size), engine::kStepTailSize);
}

void RankModel::WriteTail(const engine::StepTail& tail_of_step) {
  const std::array<float, engine::kStepTailSize> host = {tail_of_step.loss, tail_of_step.leaving};
  device->Write(host, tail());
}

engine::StepTail RankModel::ReadTail() const {
  std::array<float, engine::kStepTailSize> host = {};
  device->Read(tail(), absl::MakeSpan(host));
  return {.loss = host[0], .leaving = host[1]};
}

absl::StatusOr<std::vector<model::CheckedLayer>> CheckLayers(const TrainingPlan& plan,
                                                             const engine::Dataset& dataset) {
  return CheckLayers(plan, SampleForm{.shape = dataset.sample_shape(),
                                      .classes = dataset.classes(),
                                      .exactly = plan.data.classes > 0,
                                      .targets = dataset.target_shape()});
}

absl::StatusOr<std::vector<model::CheckedLayer>> CheckLayers(const TrainingPlan& plan,
                                                             const SampleForm& form) {
  DP_ASSIGN_OR_RETURN(std::vector<model::CheckedLayer> layers, FitLayers(plan, form));
  if (const auto* loss = std::get_if<engine::CrossEntropyLoss>(&plan.loss)) {
    const auto weights = static_cast<int>(loss->class_weights.size());
    DP_RETURN_IF_ERROR(CheckClassWeights(weights, layers.back()));
    if (plan.confusion_matrix) DP_RETURN_IF_ERROR(CheckConfusionMatrix(layers.back()));
    if (plan.early_stop) {
      DP_RETURN_IF_ERROR(
          CheckWatched("train.earlyStop.metric", NameOf(plan.early_stop->metric), layers.back()));
    }
    if (plan.checkpoint.best) {
      DP_RETURN_IF_ERROR(CheckWatched("train.checkpoint.best.metric", NameOf(*plan.checkpoint.best),
                                      layers.back()));
    }
  }
  return layers;
}

absl::StatusOr<engine::ParameterLayout> LayOutModel(const TrainingPlan& plan,
                                                    absl::Span<const model::CheckedLayer> layers) {
  engine::ParameterLayout layout = engine::LayOut(layers);
  DP_RETURN_IF_ERROR(ApplyGroups(plan.groups, layout));
  return layout;
}

engine::RankExchange ExchangeOver(engine::Group& group) {
  const auto gather = [&group](absl::Span<const double> mine, absl::Span<double> all) {
    const absl::Span<uint8_t> bytes(reinterpret_cast<uint8_t*>(all.data()),
                                    all.size() * sizeof(double));
    if (group.AllGather(mine, bytes)->Wait().ok()) return;
    // The step's all-reduce reports the error, which it gets, too.
    std::fill(all.begin(), all.end(), 0.0);
  };
  return {.ranks = group.size(), .gather = gather};
}

bool HasSyncNorm(absl::Span<const model::CheckedLayer> layers) {
  return absl::c_any_of(layers, [](const model::CheckedLayer& layer) {
    const auto* norm = std::get_if<model::BatchNorm>(&layer.kind);
    return norm != nullptr && norm->sync;
  });
}

absl::StatusOr<RankModel> MakeRankModel(const TrainingPlan& plan, const engine::Dataset& dataset,
                                        int batch_size) {
  DP_ASSIGN_OR_RETURN(std::unique_ptr<engine::Device> cpu, engine::OpenCpu(plan.threads));
  return MakeRankModel(plan, dataset, batch_size, std::move(cpu));
}

absl::StatusOr<RankModel> MakeRankModel(const TrainingPlan& plan, const engine::Dataset& dataset,
                                        int batch_size, std::unique_ptr<engine::Device> device,
                                        const RankModelOptions& options) {
  RankModel model;
  model.device = std::move(device);
  model.loss = plan.loss;
  DP_ASSIGN_OR_RETURN(model.layers, CheckLayers(plan, dataset));
  DP_ASSIGN_OR_RETURN(model.layout, LayOutModel(plan, model.layers));
  model.averaged = WithTail(model.layout);
  DP_RETURN_IF_ERROR(InitializeValues(plan, model));
  if (options.gradients != nullptr) {
    try {
      model.gradients = std::make_unique<BorrowedArray>(options.gradients(model.averaged.size));
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for the gradients, ", model.averaged.size, " floats"));
    }
  } else {
    DP_ASSIGN_OR_RETURN(model.gradients, model.device->Allocate(model.averaged.size));
  }
  const absl::Span<float> gradients =
      model.gradients->span().first(static_cast<size_t>(model.layout.size));
  if (plan.accumulate > 1) {
    DP_ASSIGN_OR_RETURN(model.accumulated, model.device->Allocate(model.layout.size));
  }
  const engine::NetworkOptions network = {.batch_size = batch_size,
                                          .seed = plan.seed,
                                          .precision = plan.precision,
                                          .loss = plan.loss,
                                          .deterministic = plan.deterministic,
                                          .collective_blocks = options.collective_blocks,
                                          .exchange = options.exchange};
  DP_ASSIGN_OR_RETURN(
      model.network, model.device->Compile(model.layers, network, model.values->span(), gradients));
  DP_ASSIGN_OR_RETURN(model.optimizer, model.device->MakeOptimizer(
                                           {plan.optimizer, plan.clip_norm, plan.average_decay},
                                           model.layout, model.values->span(), gradients));
  if (plan.local_sgd) {
    const auto size = static_cast<size_t>(model.layout.size);
    model.outer = {.anchor = std::vector<float>(size), .velocity = std::vector<float>(size)};
  }
  model.average_evaluates = plan.average_decay > 0 && plan.average_evaluates;
  return model;
}

}  // namespace dp::trainer

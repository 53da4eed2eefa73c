#include "worker/trainer/model/open_data.h"

#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "base/status.h"
#include "worker/engine/data/subset_dataset.h"

namespace dp::trainer {
namespace {

using engine::Dataset;
using engine::Split;

absl::StatusOr<std::unique_ptr<Dataset>> Open(const TrainingPlan& plan, Split split) {
  return std::visit(Overloaded{
                        [&](const engine::ArrayDatasetOptions& arrays) {
                          return engine::OpenArrayDataset(arrays, split);
                        },
                        [&](const engine::FolderDatasetOptions& folder) {
                          return engine::OpenFolderDataset(folder, split);
                        },
                        [&](const engine::SyntheticDatasetOptions& synthetic) {
                          return engine::MakeSyntheticDataset(synthetic, split);
                        },
                        [&](const engine::TokenDatasetOptions& text) {
                          return engine::OpenTokenDataset(text, split);
                        },
                    },
                    plan.data.source);
}

// The same set without changes that are for training alone.
TrainingPlan ForTest(TrainingPlan plan) {
  if (auto* folder = std::get_if<engine::FolderDatasetOptions>(&plan.data.source)) {
    folder->resized_crop.reset();
  }
  return plan;
}

absl::StatusOr<Datasets> DivideTrainingSet(const TrainingPlan& plan) {
  DP_ASSIGN_OR_RETURN(std::shared_ptr<const Dataset> train, Open(plan, Split::kTrain));
  std::shared_ptr<const Dataset> test = train;
  if (std::holds_alternative<engine::FolderDatasetOptions>(plan.data.source)) {
    DP_ASSIGN_OR_RETURN(test, Open(ForTest(plan), Split::kTrain));
  }
  DP_ASSIGN_OR_RETURN(engine::SampleSplit split,
                      engine::SplitSamples(train->size(), plan.data.validation, plan.seed));
  return Datasets{engine::MakeSubset(std::move(train), std::move(split.train)),
                  engine::MakeSubset(std::move(test), std::move(split.test))};
}

const engine::Normalization& NormalizationOf(const DataPlan& data) {
  static const engine::Normalization& none = *new engine::Normalization();
  return std::visit(
      Overloaded{
          [](const engine::TokenDatasetOptions&) -> const engine::Normalization& { return none; },
          [](const auto& numbers) -> const engine::Normalization& { return numbers.normalization; },
      },
      data.source);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenTestSet(const TrainingPlan& plan) {
  if (plan.data.validation == 0) return Open(ForTest(plan), Split::kTest);
  DP_ASSIGN_OR_RETURN(Datasets parts, DivideTrainingSet(plan));
  return std::move(parts.test);
}

absl::StatusOr<Datasets> OpenDatasets(const TrainingPlan& plan) {
  Datasets data;
  if (plan.data.validation > 0) {
    DP_ASSIGN_OR_RETURN(data, DivideTrainingSet(plan));
  } else {
    DP_ASSIGN_OR_RETURN(data.train, Open(plan, Split::kTrain));
    DP_ASSIGN_OR_RETURN(data.test, OpenTestSet(plan));
  }
  if (plan.data.augment) {
    DP_ASSIGN_OR_RETURN(data.train, engine::Augment(std::move(data.train), *plan.data.augment,
                                                    NormalizationOf(plan.data)));
  }
  return data;
}

}  // namespace dp::trainer

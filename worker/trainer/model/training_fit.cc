#include "worker/trainer/model/training_fit.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/trainer/model/rank_model.h"

namespace dp::trainer {
namespace {

absl::Status CheckSameShape(absl::string_view of, const model::Shape& test,
                            const model::Shape& train) {
  if (test == train) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(of, " of the test have the shape ", model::ShapeText(test),
                   ", those for training ", model::ShapeText(train), "; give sets of one shape"));
}

// The test may have classes that no sample for training has.
absl::Status CheckTestClasses(const TrainingPlan& plan, const engine::Dataset& test,
                              int64_t outputs) {
  if (!std::holds_alternative<engine::CrossEntropyLoss>(plan.loss) || test.classes() <= outputs) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the test has labels up to ", test.classes() - 1, ", but the model gives ",
                   outputs, " values; give train.data.classes, and a last layer of as many"));
}

absl::Status CheckSomethingToTrain(const TrainingPlan& plan, const engine::Dataset& train) {
  if (!plan.drop_last || train.size() >= plan.global_batch_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dropLast leaves nothing to train: the data set has ", train.size(),
                   " samples and globalBatchSize is ", plan.global_batch_size,
                   "; make the batch smaller or turn dropLast off"));
}

}  // namespace

absl::StatusOr<std::vector<model::CheckedLayer>> FitTraining(const TrainingPlan& plan,
                                                             const Datasets& data) {
  DP_ASSIGN_OR_RETURN(std::vector<model::CheckedLayer> layers, CheckLayers(plan, *data.train));
  DP_RETURN_IF_ERROR(LayOutModel(plan, layers).status());
  DP_RETURN_IF_ERROR(
      CheckSameShape("samples", data.test->sample_shape(), data.train->sample_shape()));
  DP_RETURN_IF_ERROR(
      CheckSameShape("targets", data.test->target_shape(), data.train->target_shape()));
  DP_RETURN_IF_ERROR(CheckTestClasses(plan, *data.test, layers.back().out.back()));
  DP_RETURN_IF_ERROR(CheckSomethingToTrain(plan, *data.train));
  return layers;
}

}  // namespace dp::trainer

#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/model/shape_check.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/device/device.h"
#include "worker/engine/nn/parameter.h"
#include "worker/trainer/training_plan.h"

namespace dp::trainer {

// One rank's replica: the compiled network with its flat arrays and its optimizer. Behind the last
// gradient lies room for the step's tail, which is averaged with them.
struct RankModel {
  std::unique_ptr<engine::Device> device;
  std::vector<model::CheckedLayer> layers;
  engine::ParameterLayout layout;            // of the parameters
  engine::ParameterLayout averaged;          // what ranks average: the parameters, and the tail
  std::unique_ptr<engine::Array> values;     // in `layout`
  std::unique_ptr<engine::Array> gradients;  // in `averaged`
  std::unique_ptr<engine::Network> network;
  std::unique_ptr<engine::Optimizer> optimizer;

  // Where the tail lies, on the device.
  absl::Span<float> tail() const;
  void WriteTail(const engine::StepTail& tail_of_step);
  engine::StepTail ReadTail() const;
};

// The layers of a plan with their shapes, checked against `dataset`.
// Errors: InvalidArgument names the layer that does not fit.
absl::StatusOr<std::vector<model::CheckedLayer>> CheckLayers(const TrainingPlan& plan,
                                                             const engine::Dataset& dataset);

// Compiles the plan's layers for samples of `dataset` in batches of `batch_size`, with initial
// values drawn from the plan's seed. Errors: InvalidArgument names the layer that does not fit.
absl::StatusOr<RankModel> MakeRankModel(const TrainingPlan& plan, const engine::Dataset& dataset,
                                        int batch_size);
// On that device; without one it is the CPU.
absl::StatusOr<RankModel> MakeRankModel(const TrainingPlan& plan, const engine::Dataset& dataset,
                                        int batch_size, std::unique_ptr<engine::Device> device);

}  // namespace dp::trainer

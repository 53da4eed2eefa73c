#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/model/shape_check.h"
#include "proto/job/classifier_check.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/device/device.h"
#include "worker/engine/nn/parameter.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// The state of local SGD on one rank beside its replica, in host memory. All arrays are in the
// layout of the parameters.
struct OuterState {
  std::vector<float> anchor;    // the weights with which all ranks began the round
  std::vector<float> velocity;  // of the outer optimizer
  // The arrays of the other ranks' optimizers, rank by rank, each rank's in the order of
  // Optimizer::state(). Only rank 0 has them, at the end of a round that is saved.
  std::vector<std::vector<float>> of_peers;
};

// One rank's replica: the compiled network with its flat arrays and its optimizer. The step's tail
// lies behind the last gradient and is averaged with the gradients.
struct RankModel {
  std::unique_ptr<engine::Device> device;
  std::vector<model::CheckedLayer> layers;
  engine::ParameterLayout layout;            // for the parameters
  engine::ParameterLayout averaged;          // for the averages: gradients and the tail
  std::unique_ptr<engine::Array> values;     // in `layout`
  std::unique_ptr<engine::Array> gradients;  // in `averaged`
  // In `layout`: the gradients of a step's earlier parts; null unless the plan accumulates.
  std::unique_ptr<engine::Array> accumulated;
  std::unique_ptr<engine::Network> network;
  std::unique_ptr<engine::Optimizer> optimizer;
  std::optional<OuterState> outer;  // only for local SGD
  engine::Loss loss;
  bool average_evaluates = false;

  // The array that evaluations and the final weights take, on the device: the average of the
  // weights if the plan says so, else the weights.
  absl::Span<float> result() const;
  // The tail's place in `gradients`, on the device.
  absl::Span<float> tail() const;
  void WriteTail(const engine::StepTail& tail_of_step);
  engine::StepTail ReadTail() const;
};

// Gives zeroed memory for so many floats, which outlives the model. Throws std::bad_alloc.
using GradientMemory = std::function<absl::Span<float>(int64_t floats)>;

// The plan's layers with their shapes, checked against `dataset`. Errors: InvalidArgument names the
// layer that does not fit.
absl::StatusOr<std::vector<model::CheckedLayer>> CheckLayers(const TrainingPlan& plan,
                                                             const engine::Dataset& dataset);

// The same for samples of this form: of texts the tokens of a sample, and as classes the
// vocabulary.
absl::StatusOr<std::vector<model::CheckedLayer>> CheckLayers(const TrainingPlan& plan,
                                                             const SampleForm& form);

// The layout of these layers, with the options of the plan's groups. Errors: as ApplyGroups.
absl::StatusOr<engine::ParameterLayout> LayOutModel(const TrainingPlan& plan,
                                                    absl::Span<const model::CheckedLayer> layers);

// Compiles the plan's layers for samples of `dataset` in batches of `batch_size`. Draws initial
// values from the plan's seed. Errors: InvalidArgument names the layer that does not fit; also
// those of the groups and of the device. This overload uses the CPU.
absl::StatusOr<RankModel> MakeRankModel(const TrainingPlan& plan, const engine::Dataset& dataset,
                                        int batch_size);
// For batch norms over all ranks of `group`, which outlives the model.
engine::RankExchange ExchangeOver(engine::Group& group);
// Whether a layer normalizes over all ranks, so that its forward and backward are collectives.
bool HasSyncNorm(absl::Span<const model::CheckedLayer> layers);

struct RankModelOptions {
  GradientMemory gradients;            // where they lie; empty: in the device's memory
  int collective_blocks = 0;           // NetworkOptions'
  engine::RankExchange exchange = {};  // NetworkOptions'
};
// Uses `device`.
absl::StatusOr<RankModel> MakeRankModel(const TrainingPlan& plan, const engine::Dataset& dataset,
                                        int batch_size, std::unique_ptr<engine::Device> device,
                                        const RankModelOptions& options = {});

}  // namespace dp::trainer

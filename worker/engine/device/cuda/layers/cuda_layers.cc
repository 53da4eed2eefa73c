#include "worker/engine/device/cuda/layers/cuda_layers.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/engine/device/cuda/layers/cuda_layers_planner.h"

namespace dp::engine::cuda {
namespace {

// The setting of a layer that the planner lacks; empty if it has all.
std::string Lacking(const model::LayerKind& kind) {
  const auto* norm = std::get_if<model::BatchNorm>(&kind);
  return norm != nullptr && norm->sync ? "sync" : "";
}

bool IsPlannable(const model::LayerKind& kind) {
  return std::visit([]<typename Kind>(const Kind&) { return PlannableKind<Kind>; }, kind);
}

}  // namespace

absl::Status CheckPlannable(absl::Span<const model::CheckedLayer> layers, const Loss& loss) {
  for (const model::CheckedLayer& layer : layers) {
    if (layer.device != 0)
      return absl::UnimplementedError(
          absl::StrCat("layer '", layer.name, "' is on device ", layer.device,
                       ": layers on several devices are computed on CPUs only, and this rank "
                       "computes on a GPU; set train.device to cpu"));
    const std::string lacking = Lacking(layer.kind);
    if (lacking.empty() && IsPlannable(layer.kind)) continue;
    return absl::UnimplementedError(absl::StrCat(
        "layer '", layer.name, "' (", model::KindName(layer.kind), ")",
        lacking.empty() ? "" : absl::StrCat(" with ", lacking),
        " is computed on CPUs only, and this rank computes on a GPU; set train.device to cpu"));
  }
  const auto* cross_entropy = std::get_if<CrossEntropyLoss>(&loss);
  if (cross_entropy != nullptr && cross_entropy->label_smoothing == 0 && !WeighsLabels(loss)) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      "losses other than cross-entropy without smoothing, classWeights and ignoreIndex are "
      "computed "
      "on CPUs only, and this rank computes on a GPU; set train.device to cpu");
}

LayerProgram PlanLayers(absl::Span<const model::CheckedLayer> layers,
                        const LayerProgramOptions& options) {
  DP_CHECK(!layers.empty() && options.network.batch_size > 0);
  return LayerPlanner(layers, options).Plan();
}

int64_t BytesOf(Stored stored, Precision precision) {
  switch (stored) {
    case Stored::kActivation:
      return precision == Precision::kBfloat16 ? 2 : 4;
    case Stored::kFloat:
    case Stored::kInt32:
      return 4;
    case Stored::kInt64:
      return 8;
    case Stored::kByte:
      return 1;
  }
  DP_CHECK(false);
  return 0;
}

ArenaPlan PlanArena(const LayerProgram& program) {
  std::vector<ArenaArray> arrays;
  for (const ProgramArray& array : program.arrays) {
    arrays.push_back({.bytes = array.size * BytesOf(array.stored, program.precision),
                      .first = array.first,
                      .last = array.last});
  }
  for (const ArrayId given : {program.images, program.tokens, program.labels, program.samples}) {
    if (given != kNone) arrays[given].bytes = 0;
  }
  return PlanArena(arrays);
}

}  // namespace dp::engine::cuda

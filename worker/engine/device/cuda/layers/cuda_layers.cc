#include "worker/engine/device/cuda/layers/cuda_layers.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/overloaded.h"
#include "worker/engine/device/cuda/kernels/cuda_limits.h"
#include "worker/engine/device/cuda/layers/cuda_layers_planner.h"

namespace dp::engine::cuda {
namespace {

// The setting of a layer that GPUs do not compute, as " with sync". Empty: they compute no such
// layer. None: they compute the layer.
std::optional<std::string> Lacking(const model::CheckedLayer& layer) {
  const auto heads = [&](int64_t count) -> std::optional<std::string> {
    const int64_t features = layer.out.back() / count;
    if (features <= kAttentionHeadMax) return std::nullopt;
    return absl::StrCat(" with heads of ", features, " features (", kAttentionHeadMax, " at most)");
  };
  return std::visit(
      Overloaded{[](const model::MaxPool2d& pool) -> std::optional<std::string> {
                   if (pool.kernel <= kPoolingKernelMax) return std::nullopt;
                   return absl::StrCat(" with a kernel of ", pool.kernel, " (", kPoolingKernelMax,
                                       " at most)");
                 },
                 [&](const model::CausalAttention& attention) { return heads(attention.heads); },
                 [&](const model::Attention& attention) { return heads(attention.heads); },
                 [](const model::BatchNorm& norm) -> std::optional<std::string> {
                   if (!norm.sync) return std::nullopt;
                   return " with sync";
                 },
                 [](const model::Plugin&) -> std::optional<std::string> { return ""; },
                 [](const auto&) -> std::optional<std::string> { return std::nullopt; }},
      layer.kind);
}

}  // namespace

absl::Status CheckPlannable(absl::Span<const model::CheckedLayer> layers, const Loss& loss) {
  for (const model::CheckedLayer& layer : layers) {
    if (layer.device != 0)
      return absl::UnimplementedError(
          absl::StrCat("layer '", layer.name, "' is on device ", layer.device,
                       ": layers on several devices are computed on CPUs only, and this rank "
                       "computes on a GPU; set train.device to cpu"));
    const std::optional<std::string> lacking = Lacking(layer);
    if (!lacking.has_value()) continue;
    return absl::UnimplementedError(absl::StrCat(
        "layer '", layer.name, "' (", model::KindName(layer.kind), ")", *lacking,
        " is computed on CPUs only, and this rank computes on a GPU; set train.device to cpu"));
  }
  if (!WeighsLabels(loss)) return absl::OkStatus();
  return absl::UnimplementedError(
      "cross-entropy with classWeights or ignoreIndex is computed on CPUs only, and this rank "
      "computes on a GPU; set train.device to cpu");
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
  for (const ArrayId given :
       {program.images, program.tokens, program.labels, program.targets, program.samples}) {
    if (given != kNone) arrays[given].bytes = 0;
  }
  return PlanArena(arrays);
}

}  // namespace dp::engine::cuda

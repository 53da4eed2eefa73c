#include "base/overloaded.h"
#include "worker/engine/device/cuda/attention/cuda_attention.h"
#include "worker/engine/device/cuda/images/cuda_channel_norm.h"
#include "worker/engine/device/cuda/kernels/cuda_column_sums.h"
#include "worker/engine/device/cuda/kernels/cuda_embedding.h"
#include "worker/engine/device/cuda/kernels/cuda_layer_norm.h"
#include "worker/engine/device/cuda/network/cuda_network_loss.h"
#include "worker/engine/device/cuda/network/cuda_network_operation.h"
#include "worker/engine/device/cuda/network/cuda_network_shapes.h"

namespace dp::engine::cuda {
namespace {

int64_t Floats(int64_t count) { return count * static_cast<int64_t>(sizeof(float)); }

}  // namespace

int64_t ScratchBytes(const LayerProgram& program, const OperationKind& kind) {
  return std::visit(
      Overloaded{
          [](const op::BiasGradient& o) {
            if (o.places > 1) return int64_t{0};
            return Floats(ColumnSumsWorkspace({o.rows, o.columns}));
          },
          [](const op::LinearWeightGradient& o) {
            if (o.bias == kNone) return int64_t{0};
            return Floats(ColumnSumsWorkspace({o.size.rows, o.size.out}));
          },
          [](const op::PositionsGradient& o) {
            return Floats(ColumnSumsWorkspace({o.samples, o.size}));
          },
          [](const op::NormGradient& o) {
            return Floats(LayerNormBackwardWorkspace({o.rows, o.columns}));
          },
          [](const op::BatchNorm& o) { return Floats(ChannelNormWorkspace(ShapeOf(o.shape))); },
          [](const op::BatchNormGradient& o) {
            return Floats(ChannelNormWorkspace(ShapeOf(o.shape)));
          },
          [](const op::AttendGradient& o) {
            if (o.size.fused) return int64_t{0};
            return Floats(AttentionBackwardWorkspace(ShapeOf(o.size)));
          },
          [&](const op::EmbeddingGradient& o) {
            return EmbeddingBackwardWorkspace(EmbeddingShapeOf(program, o.weight));
          },
          [](const op::TakeLoss& o) { return LossWorkspace(o); },
          [](const auto&) { return int64_t{0}; },
      },
      kind);
}

}  // namespace dp::engine::cuda

// Texts: embeddings, positions, norms, attention. Also the no-op in the loss's place.

#include <memory>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/kernels/cuda_column_sums.h"
#include "worker/engine/device/cuda/kernels/cuda_embedding.h"
#include "worker/engine/device/cuda/kernels/cuda_layer_norm.h"
#include "worker/engine/device/cuda/kernels/cuda_softmax.h"
#include "worker/engine/device/cuda/network/cuda_network_operation.h"
#include "worker/engine/device/cuda/network/cuda_network_shapes.h"

namespace dp::engine::cuda {
namespace {

// The plan that all layers of this shape share, with its backward where the program has one.
absl::StatusOr<std::shared_ptr<AttentionPlan>> FusedPlan(OperationParts& parts,
                                                         const op::Attend& o) {
  const AttentionShape shape = ShapeOf(o.size);
  std::shared_ptr<AttentionPlan>& plan = parts.attentions[Describe(shape, AttentionPass::kForward)];
  if (plan != nullptr) return plan;
  AttentionOperands operands = {.in = parts.array<void>(o.in),
                                .out = parts.array<void>(o.out),
                                .log_sums = parts.array<float>(o.log_sums)};
  for (const Operation& operation : parts.program.operations) {
    const auto* backward = std::get_if<op::AttendGradient>(&operation.kind);
    if (backward == nullptr || backward->in != o.in) continue;
    operands.out_gradient = parts.array<void>(backward->out_gradient);
    operands.in_gradient = parts.array<void>(backward->in_gradient);
  }
  const AttentionOptions options = {.training = operands.in_gradient != nullptr,
                                    .deterministic = parts.program.deterministic};
  DP_ASSIGN_OR_RETURN(AttentionPlan made,
                      AttentionPlan::Make(parts.planning, shape, options, operands));
  plan = std::make_shared<AttentionPlan>(std::move(made));
  return plan;
}

}  // namespace

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Embed& o) const {
  return MakeLaunch([shape = EmbeddingShapeOf(parts.program, o.weight),
                     tokens = array<int32_t>(parts.program.tokens),
                     weight = parts.memory.weight<T>(o.weight),
                     positions = parts.memory.weight<T>(o.positions), step = parts.memory.step(),
                     out = array<T>(o.out)](cudaStream_t stream) {
    return EmbeddingForward<T, T>(stream, tokens, weight, positions, shape, step, out);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::AddPositions& o) const {
  const model::Shape& weight_shape = parts.program.layout.parameters[o.weight].shape;
  const EmbeddingShape shape = {.samples = parts.program.batch_size,
                                .tokens_per_sample = weight_shape[0],
                                .features = weight_shape[1]};
  return MakeLaunch([shape, in = array<T>(o.in), weight = parts.memory.weight<T>(o.weight),
                     out = array<T>(o.out)](cudaStream_t stream) {
    return PositionsForward<T, T>(stream, in, weight, shape, out);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::PositionsGradient& o) const {
  return MakeLaunch([gradient = array<T>(o.out_gradient), shape = Matrix{o.samples, o.size},
                     scratch = scratch(),
                     sums = parts.memory.gradient(o.weight)](cudaStream_t stream) {
    return ColumnSums<T>(stream, gradient, shape, scratch, sums);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::ZeroGradient& o) const {
  const size_t bytes =
      sizeof(float) * static_cast<size_t>(parts.program.layout.parameters[o.weight].size);
  return MakeLaunch([bytes, gradient = parts.memory.gradient(o.weight)](cudaStream_t stream) {
    return cudaMemsetAsync(gradient, 0, bytes, stream);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::EmbeddingGradient& o) const {
  const EmbeddingShape shape = EmbeddingShapeOf(parts.program, o.weight);
  const EmbeddingWorkspace workspace = {scratch(), ScratchBytes(parts.program, o)};
  return MakeLaunch([shape, workspace, tokens = array<int32_t>(parts.program.tokens),
                     gradient = array<T>(o.out_gradient), step = parts.memory.step(),
                     weight = parts.memory.gradient(o.weight)](cudaStream_t stream) {
    return EmbeddingBackward<T>(stream, tokens, gradient, shape, step, workspace, weight);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Norm& o) const {
  const LayerNormParameters parameters = {parts.memory.value(o.weight), parts.memory.value(o.bias),
                                          static_cast<float>(o.epsilon)};
  return MakeLaunch([parameters, in = array<T>(o.in), added = array<T>(o.added),
                     sum = array<T>(o.sum), shape = Matrix{o.rows, o.columns},
                     moments = RowMoments{array<float>(o.mean), array<float>(o.deviation)},
                     out = array<T>(o.out)](cudaStream_t stream) {
    if (added == nullptr) {
      return LayerNormForward<T>(stream, in, parameters, shape, moments, out);
    }
    return AddLayerNormForward<T>(stream, in, added, parameters, shape, moments, sum, out);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::NormGradient& o) const {
  const LayerNormGradients<T> gradients = {array<T>(o.in_gradient), parts.memory.gradient(o.weight),
                                           parts.memory.gradient(o.bias)};
  return MakeLaunch([gradients, in = array<T>(o.in), gradient = array<T>(o.out_gradient),
                     shortcut = array<T>(o.shortcut), weight = parts.memory.value(o.weight),
                     moments = RowMoments{array<float>(o.mean), array<float>(o.deviation)},
                     shape = Matrix{o.rows, o.columns}, scratch = scratch()](cudaStream_t stream) {
    return LayerNormBackward<T>(stream, in, gradient, shortcut, weight, moments, shape, scratch,
                                gradients);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Softmax& o) const {
  return MakeLaunch([shape = Matrix{o.rows, o.columns}, in = array<T>(o.in), out = array<T>(o.out)](
                        cudaStream_t stream) { return SoftmaxForward<T>(stream, in, shape, out); });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::SoftmaxGradient& o) const {
  return MakeLaunch([shape = Matrix{o.rows, o.columns}, out = array<T>(o.out),
                     gradient = array<T>(o.out_gradient),
                     in_gradient = array<T>(o.in_gradient)](cudaStream_t stream) {
    return SoftmaxBackward<T>(stream, out, gradient, shape, in_gradient);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Attend& o) const {
  if (o.size.fused) {
    DP_ASSIGN_OR_RETURN(std::shared_ptr<AttentionPlan> plan, FusedPlan(parts, o));
    const AttentionOperands operands = {
        .in = array<void>(o.in), .out = array<void>(o.out), .log_sums = array<float>(o.log_sums)};
    return MakeOperation([plan = std::move(plan), operands](cudaStream_t stream, Mode) {
      return plan->Forward(stream, operands);
    });
  }
  return MakeLaunch([shape = ShapeOf(o.size), in = array<float>(o.in),
                     log_sums = array<float>(o.log_sums),
                     out = array<float>(o.out)](cudaStream_t stream) {
    return AttentionForward(stream, in, shape, log_sums, out);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::AttendGradient& o) const {
  if (o.size.fused) {
    const auto plan = parts.attentions.find(Describe(ShapeOf(o.size), AttentionPass::kForward));
    DP_CHECK(plan != parts.attentions.end());
    const AttentionOperands operands = {.in = array<void>(o.in),
                                        .out = array<void>(o.out),
                                        .log_sums = array<float>(o.log_sums),
                                        .out_gradient = array<void>(o.out_gradient),
                                        .in_gradient = array<void>(o.in_gradient)};
    return MakeOperation([plan = plan->second, operands](cudaStream_t stream, Mode) {
      return plan->Backward(stream, operands);
    });
  }
  return MakeLaunch([shape = ShapeOf(o.size), in = array<float>(o.in), out = array<float>(o.out),
                     log_sums = array<float>(o.log_sums), gradient = array<float>(o.out_gradient),
                     scratch = scratch(),
                     in_gradient = array<float>(o.in_gradient)](cudaStream_t stream) {
    return AttentionBackward(stream, in, out, log_sums, gradient, shape, scratch, in_gradient);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::TakeLoss&) const {
  return MakeLaunch([](cudaStream_t) { return cudaSuccess; });
}

template MadeOperation OperationMaker<float>::operator()(const op::Embed&) const;
template MadeOperation OperationMaker<float>::operator()(const op::AddPositions&) const;
template MadeOperation OperationMaker<float>::operator()(const op::PositionsGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::ZeroGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::EmbeddingGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::Norm&) const;
template MadeOperation OperationMaker<float>::operator()(const op::NormGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::Softmax&) const;
template MadeOperation OperationMaker<float>::operator()(const op::SoftmaxGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::Attend&) const;
template MadeOperation OperationMaker<float>::operator()(const op::AttendGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::TakeLoss&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Embed&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::AddPositions&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::PositionsGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::ZeroGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::EmbeddingGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Norm&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::NormGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Softmax&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::SoftmaxGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Attend&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::AttendGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::TakeLoss&) const;

}  // namespace dp::engine::cuda

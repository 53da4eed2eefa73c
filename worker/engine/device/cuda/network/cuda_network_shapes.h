#pragma once

#include "worker/engine/device/cuda/attention/cuda_attention.h"
#include "worker/engine/device/cuda/images/cuda_channel_norm.h"
#include "worker/engine/device/cuda/kernels/cuda_embedding.h"
#include "worker/engine/device/cuda/layers/cuda_layers.h"
#include "worker/engine/device/cuda/losses/cuda_cross_entropy.h"

// Sizes of a program's operations as the kernels take them.

namespace dp::engine::cuda {

inline AttentionShape ShapeOf(const HeadsSize& size) {
  return {size.samples, size.tokens, size.heads, size.head_features, size.causal};
}

inline LogitsShape ShapeOf(const op::TakeLoss& o) {
  return {o.samples, o.rows_per_sample, o.classes, o.stride};
}

inline ChannelNormShape ShapeOf(const ChannelRows& rows) {
  return {rows.samples, rows.places, rows.channels};
}

// `weight` is the embedding's parameter.
inline EmbeddingShape EmbeddingShapeOf(const LayerProgram& program, int weight) {
  return {.samples = program.batch_size,
          .tokens_per_sample = program.tokens_per_sample,
          .features = program.layout.parameters[weight].shape[1],
          .vocabulary = program.vocabulary};
}

}  // namespace dp::engine::cuda

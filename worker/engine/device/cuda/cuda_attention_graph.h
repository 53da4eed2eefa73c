#pragma once

#include <cstdint>
#include <string>

#include "worker/engine/device/cuda/cuda_attention.h"
#include "worker/engine/device/cuda/cuda_cudnn_graph.h"

namespace dp::engine::cuda {

// For the cache and for errors: "attention forward b=8 t=1024 h=12 d=64".
std::string Describe(const AttentionShape& shape, bool backward);

// Why no plan is made for a shape, empty if nothing is known against it: what cuDNN's fused kernels
// are not asked for. Heads must be multiples of 8 wide, and at most 128.
std::string WhyNot(const AttentionShape& shape);

// The tensors of attention as cuDNN takes them: samples, heads, tokens, features of a head, each
// head where it lies in its row.
struct AttentionLayouts {
  TensorLayout packed;             // queries, keys or values, from the first of them on
  TensorLayout packed_transposed;  // the same with tokens and features exchanged
  TensorLayout out;
  TensorLayout row;     // a value for each row of scores
  TensorLayout scores;  // tokens x tokens
  TensorLayout scores_transposed;
};
AttentionLayouts LayoutsOf(const AttentionShape& shape);

// The attention of model::CausalAttention in the form that cuDNN's FlashAttention engines look for:
// scores, mask, softmax and mixture as operations of their own. Stored are queries, keys, values,
// out and log_sums, bfloat16 but for the last, which is float32.
CudnnGraph MakeForwardGraph(const AttentionShape& shape);

// Stored are queries, keys, values, out, log_sums, the gradient of out, those of queries, keys and
// values, and `row_products`, float32: room for what the rows of out and of its gradient give when
// multiplied and summed. The gradient of the queries is written once by whoever has all of it, not
// added up by whoever is first, which is what makes the bits the same in every run; on Hopper that
// takes a workspace of the size of the scores, in bfloat16.
CudnnGraph MakeBackwardGraph(const AttentionShape& shape);

}  // namespace dp::engine::cuda

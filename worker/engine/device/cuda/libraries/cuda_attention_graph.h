#pragma once

#include <cstdint>
#include <string>

#include "worker/engine/device/cuda/attention/cuda_attention.h"
#include "worker/engine/device/cuda/libraries/cuda_cudnn_graph.h"

namespace dp::engine::cuda {

// kAtomicBackward computes kBackward's gradients, and may give other bits in another run.
enum class AttentionPass { kForward, kBackward, kAtomicBackward };

// For the cache and for errors: "attention forward b=8 t=1024 h=12 d=64".
std::string Describe(const AttentionShape& shape, AttentionPass pass);

// Why cuDNN's fused kernels are not tried for a shape; empty if nothing is known against it. Heads
// must be multiples of 8 wide, and at most 128.
std::string WhyNot(const AttentionShape& shape);

// The tensors of attention with cuDNN's axes: samples, heads, tokens, features of a head. Each head
// stays where it lies in its row.
struct AttentionLayouts {
  TensorLayout packed;             // queries, keys or values, from the first of them on
  TensorLayout packed_transposed;  // the same with tokens and features exchanged
  TensorLayout out;
  TensorLayout head;    // features of a head, head after head
  TensorLayout row;     // a value for each row of scores
  TensorLayout scores;  // tokens x tokens
  TensorLayout scores_transposed;
};
AttentionLayouts LayoutsOf(const AttentionShape& shape);

// The attention of model::CausalAttention in the form that cuDNN's FlashAttention engines
// recognize: scores, mask, softmax and mixture as separate operations. Stored are queries, keys,
// values, out and log_sums. log_sums is float32, the others are bfloat16.
CudnnGraph MakeForwardGraph(const AttentionShape& shape);

// Stored are queries, keys, values, out, log_sums, then the gradients of out, queries, keys and
// values, and last `row_products`. `row_products` is float32, room for the dot product of each row
// of out and its gradient. The gradient of the queries is written once, when all of it is known,
// and not added up in parts. This makes the bits the same in every run. On Hopper it takes a
// workspace of the size of the scores, in bfloat16.
CudnnGraph MakeBackwardGraph(const AttentionShape& shape);

// The same gradients without that workspace. Stored last is one more array, `queries_sums`:
// float32, samples x heads x tokens x features of a head. Thread blocks add their parts of the
// queries' gradient to it atomically, in the order in which they come. cuDNN must set it to 0
// before: see kCudnnClearsSums.
CudnnGraph MakeAtomicBackwardGraph(const AttentionShape& shape);

// The first cuDNN that sets `queries_sums` to 0 itself, by NVIDIA's word. No GPU has confirmed it
// yet. CudaAttentionPlanTest.TheAtomicFormIsTheCpusToo asks it.
inline constexpr size_t kCudnnClearsSums = 90600;

}  // namespace dp::engine::cuda

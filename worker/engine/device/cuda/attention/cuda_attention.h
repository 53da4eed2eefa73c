#pragma once

#include "worker/engine/device/cuda/kernels/cuda_limits.h"
#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Attention as model::Attention defines it, without the rotation. It serves where the library's
// fused kernels do not: float32, and head widths that are not a multiple of 8. It uses tiles in
// shared memory and ordinary multiplications, and makes no tokens x tokens array.

namespace dp::engine::cuda {

struct AttentionShape {
  int64_t samples = 0;
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t head_features = 0;  // at most kAttentionHeadMax
  bool causal = true;         // a token sees itself and those before it; otherwise all

  DP_HOST_DEVICE int64_t features() const { return heads * head_features; }
  DP_HOST_DEVICE int64_t rows() const { return samples * heads * tokens; }
  // Behind the tokens that those of a tile see, which begins with token `tile`: tiles of keys from
  // 0 to before this end matter.
  DP_HOST_DEVICE int64_t SeenEnd(int64_t tile) const { return causal ? tile + 1 : tokens; }
};

// `in` is samples x tokens x 3 features: queries, keys, values, each head after head. `out` is
// samples x tokens x features. `log_sums`, samples x heads x tokens floats, receives the logarithm
// of each row's sum of exponentials, which backward needs.
cudaError_t AttentionForward(cudaStream_t stream, const float* in, AttentionShape shape,
                             float* log_sums, float* out);

// Floats that AttentionBackward needs: for each row of each head, the dot product of output
// and gradient.
int64_t AttentionBackwardWorkspace(AttentionShape shape);

// `in`, `out` and `log_sums` are forward's. Overwrites `in_gradient`, in the shape of `in`.
cudaError_t AttentionBackward(cudaStream_t stream, const float* in, const float* out,
                              const float* log_sums, const float* out_gradient,
                              AttentionShape shape, float* workspace, float* in_gradient);

}  // namespace dp::engine::cuda

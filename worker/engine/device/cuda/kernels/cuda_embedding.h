#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

// The two layers that a text begins with. A row is a token of a sample; `tokens` holds its number.
// The code that copies tokens from the host or a file has checked that they are below the
// vocabulary.

namespace dp::engine::cuda {

struct EmbeddingShape {
  int64_t samples = 0;            // batch size
  int64_t tokens_per_sample = 0;  // rows of a sample
  int64_t features = 0;
  int64_t vocabulary = 0;

  DP_HOST_DEVICE int64_t rows() const { return samples * tokens_per_sample; }
};

// out[row] = weight[token of row], plus positions[row's place in its sample] where `positions` is
// not null. W is the weights' precision: float, or bf16 with T = bf16. Rows of padding samples
// (step->count and above) are computed as token 0.
template <typename W, typename T>
cudaError_t EmbeddingForward(cudaStream_t stream, const int32_t* tokens, const W* weight,
                             const W* positions, EmbeddingShape shape, const StepInput* step,
                             T* out);

// out[row] = in[row] + weight[row's place in its sample], for positions that follow a layer other
// than an embedding.
template <typename W, typename T>
cudaError_t PositionsForward(cudaStream_t stream, const T* in, const W* weight,
                             EmbeddingShape shape, T* out);
// The gradient of positions is ColumnSums over {samples, tokens_per_sample x features}.

// Bytes that EmbeddingBackward needs on this card: rows sorted by token, and the sums of tokens
// whose rows fall into several chunks. Too few if the query of the card fails.
int64_t EmbeddingBackwardWorkspace(EmbeddingShape shape);
struct EmbeddingWorkspace {
  void* memory = nullptr;
  int64_t bytes = 0;
};

// weight_gradient[token] += the sum of out_gradient over the rows of this token. Before the call it
// holds zeroes, or the gradient of the output layer that shares the weight. Rows of padding count
// as token 0 and must have zero gradient. Rows are sorted by token, in stable order, and summed in
// chunks of equal length, so work is even however often a token occurs.
// Errors: cudaErrorInvalidValue the workspace is too small.
template <typename T>
cudaError_t EmbeddingBackward(cudaStream_t stream, const int32_t* tokens, const T* out_gradient,
                              EmbeddingShape shape, const StepInput* step,
                              EmbeddingWorkspace workspace, float* weight_gradient);

}  // namespace dp::engine::cuda

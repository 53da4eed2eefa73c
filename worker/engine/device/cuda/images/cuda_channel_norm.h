#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Batch norm of arrays with channels last, as model::BatchNorm defines it. Only the rows of the
// first step->count samples count in moments and in gradients. Weight and bias are the float
// masters, whatever T is.

namespace dp::engine::cuda {

// samples x places x channels. A row is one place: the values of all channels there.
struct ChannelNormShape {
  int64_t samples = 0;
  int64_t places = 0;
  int64_t channels = 0;

  DP_HOST_DEVICE int64_t rows() const { return samples * places; }
};

// By channel. `inverse_deviation` is 1 / sqrt(biased variance + epsilon); `variance` is the
// unbiased one, which running averages take.
struct ChannelMoments {
  float* mean = nullptr;
  float* inverse_deviation = nullptr;
  float* variance = nullptr;
};

// Floats that MeasureChannels and ChannelNormBackward need.
int64_t ChannelNormWorkspace(const ChannelNormShape& shape);

// Computes the moments of a batch. Each chunk of rows is measured by itself, around its first row.
// Without a sample all means and variances are 0.
template <typename T>
cudaError_t MeasureChannels(cudaStream_t stream, const T* in, const ChannelNormShape& shape,
                            const StepInput* step, double epsilon, float* workspace,
                            ChannelMoments moments);
// Takes the running moments as those of a batch.
cudaError_t TakeRunningMoments(cudaStream_t stream, const float* running_mean,
                               const float* running_variance, int64_t channels, double epsilon,
                               ChannelMoments moments);

struct ChannelNormParameters {
  const float* weight = nullptr;
  const float* bias = nullptr;
  bool relu = false;  // negative results become 0
};

// out = (in - mean) inverse_deviation weight + bias. Rows of padding become 0; with a null `step`
// there are none.
template <typename T>
cudaError_t ChannelNormForward(cudaStream_t stream, const T* in, ChannelNormParameters parameters,
                               ChannelMoments moments, const ChannelNormShape& shape,
                               const StepInput* step, T* out);

template <typename T>
struct ChannelNormGradients {
  T* in = nullptr;  // may be null
  float* weight = nullptr;
  float* bias = nullptr;
};

// `in` and `moments` are forward's, and so is `relu_out`, forward's `out` with a ReLU, else null.
// Overwrites the gradients.
template <typename T>
cudaError_t ChannelNormBackward(cudaStream_t stream, const T* in, const T* relu_out,
                                const T* out_gradient, const float* weight, ChannelMoments moments,
                                const ChannelNormShape& shape, const StepInput* step,
                                float* workspace, ChannelNormGradients<T> gradients);

// Passes the moments of a batch on as the gradients of the running moments. They are multiplied by
// step->gradient_scale and by the loss's rows of a sample, `rows_per_sample`, times step->count.
cudaError_t PassMoments(cudaStream_t stream, ChannelMoments moments, int64_t channels,
                        const StepInput* step, int64_t rows_per_sample, float* mean_gradient,
                        float* variance_gradient);

}  // namespace dp::engine::cuda

#pragma once

#include "worker/engine/device/cuda/kernels/cuda_launch.h"
#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Batch normalization over the samples of several ranks, each with a part of the batch. Statistics
// are in double. `packed` statistics are one array: the count of a channel's values, the means by
// channel, the sums of the squared distances from them. Arrays need no alignment beyond that of an
// element.

namespace dp::engine::cuda {

// samples x channels x positions.
struct ChannelArray {
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t positions = 0;

  DP_HOST_DEVICE int64_t size() const { return samples * channels * positions; }
};

struct BatchNormArrays {
  double* count = nullptr;
  double* mean = nullptr;  // by channel
  double* inverse_deviation = nullptr;
};

DP_HOST_DEVICE constexpr int64_t PackedSize(int64_t channels) { return 1 + 2 * channels; }
// Doubles that ChannelStatistics and ChannelGradients need.
int64_t BatchNormWorkspace(const ChannelArray& shape);

// The shape is not empty.
cudaError_t ChannelStatistics(cudaStream_t stream, const ChannelArray& shape, const float* values,
                              double* workspace, double* packed);

// Makes the `parts` packed statistics one batch, by the formula of Chan, Golub and LeVeque (1979).
// The running values become (1 - share) * running + share * batch.
cudaError_t CombineStatistics(cudaStream_t stream, int64_t channels, int64_t parts,
                              const double* packed, double eps, double share,
                              BatchNormArrays arrays, float* running_mean, float* running_var);
// The running values as those of a batch.
cudaError_t TakeRunning(cudaStream_t stream, int64_t channels, const float* running_mean,
                        const float* running_var, double eps, BatchNormArrays arrays);

// out = (in - mean) * inverse_deviation * weight + bias.
cudaError_t BatchNormForward(cudaStream_t stream, const ChannelArray& shape, const float* in,
                             const float* weight, const float* bias, BatchNormArrays arrays,
                             float* out);

// By channel: sums of the output's gradients, then of these times the normalized input. The shape
// is not empty.
cudaError_t ChannelGradients(cudaStream_t stream, const ChannelArray& shape, const float* in,
                             const float* out_gradient, BatchNormArrays arrays, double* workspace,
                             double* sums);
// Adds such sums to the gradients of bias and weight.
cudaError_t AddChannelGradients(cudaStream_t stream, int64_t channels, const double* sums,
                                float* weight_gradient, float* bias_gradient);
// `sums` are those of all parts of the batch.
cudaError_t BatchNormBackward(cudaStream_t stream, const ChannelArray& shape, const float* in,
                              const float* out_gradient, const float* weight,
                              BatchNormArrays arrays, const double* sums, float* in_gradient);

}  // namespace dp::engine::cuda

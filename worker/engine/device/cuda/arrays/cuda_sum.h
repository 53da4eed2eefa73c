#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

// For gradients of several GPUs. Arrays need no alignment beyond that of an element.

namespace dp::engine::cuda {

inline constexpr int kSumInputsMax = 32;

// sum = inputs[0] + inputs[1] + ..., in the order of engine::ReduceInOrder, and with its bits.
// `inputs` are `count` arrays of the device's memory, at most kSumInputsMax; `sum` may be one of
// them. T is float, double, bf16, half, uint8_t, uint32_t or uint64_t. 16-bit floats are added as
// floats and rounded once.
template <typename T>
cudaError_t Sum(cudaStream_t stream, const T* const* inputs, int count, int64_t size, T* sum);

}  // namespace dp::engine::cuda

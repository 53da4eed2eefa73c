#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

namespace dp::engine::cuda {

// out = in rounded to `To`: to nearest, ties to even. All pairs of float, bf16, half and double,
// by way of float. Also float to int32_t, for tokens that arrive as floats.
template <typename From, typename To>
cudaError_t Cast(cudaStream_t stream, const From* in, int64_t size, To* out);

}  // namespace dp::engine::cuda

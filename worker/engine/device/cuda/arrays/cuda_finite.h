#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

namespace dp::engine::cuda {

// Sets *found to 1 if one of `size` elements is infinite or NaN; otherwise *found stays as it is.
// `found` is on the device. Twin: LargestMagnitude (cpu_nan.h) is not finite.
cudaError_t FindNotFinite(cudaStream_t stream, const float* in, int64_t size, int32_t* found);

}  // namespace dp::engine::cuda

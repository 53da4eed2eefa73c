#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

namespace dp::engine::cuda {

// out[i] = NormalAt(seed, i), rounded to T. `out` is aligned to 16 bytes.
template <typename T>
cudaError_t FillNormal(cudaStream_t stream, uint64_t seed, int64_t size, T* out);

}  // namespace dp::engine::cuda

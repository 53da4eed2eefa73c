#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

namespace dp::engine::cuda {

// Bytes that SortPairs needs on this card. Errors: the library's.
cudaError_t SortWorkspace(int64_t pairs, int bits, int64_t* bytes);

struct SortArrays {
  const int32_t* keys = nullptr;
  int32_t* sorted_keys = nullptr;
  const int32_t* values = nullptr;
  int32_t* sorted_values = nullptr;
};

// Sorts pairs by the lowest `bits` of their keys, which are not negative. Equal keys keep their
// order. Errors: cudaErrorInvalidValue the workspace is too small.
cudaError_t SortPairs(cudaStream_t stream, int64_t pairs, int bits, const SortArrays& arrays,
                      void* workspace, int64_t workspace_bytes);

}  // namespace dp::engine::cuda

#pragma once

#include "worker/engine/device/cuda/cuda_types.h"

namespace dp::engine::cuda {

// Bytes that SortPairs needs, more than it asks for on any card: counters for each digit, a few for
// each tile of pairs, and room for a copy.
constexpr int64_t SortWorkspace(int64_t pairs) { return (int64_t{4} << 20) + 32 * pairs; }

struct SortArrays {
  const int32_t* keys = nullptr;
  int32_t* sorted_keys = nullptr;
  const int32_t* values = nullptr;
  int32_t* sorted_values = nullptr;
};

// Sorts pairs by the lowest `bits` of their keys, which are not negative; equal keys keep their
// order.
cudaError_t SortPairs(cudaStream_t stream, int64_t pairs, int bits, const SortArrays& arrays,
                      void* workspace);

}  // namespace dp::engine::cuda

#include "worker/engine/device/cuda/cuda_sort.h"

#include <cub/device/device_radix_sort.cuh>

namespace dp::engine::cuda {

cudaError_t SortPairs(cudaStream_t stream, int64_t pairs, int bits, const SortArrays& arrays,
                      void* workspace) {
  size_t bytes = 0;
  const auto sort = [&](void* memory) {
    return cub::DeviceRadixSort::SortPairs(memory, bytes, arrays.keys, arrays.sorted_keys,
                                           arrays.values, arrays.sorted_values,
                                           static_cast<int>(pairs), 0, bits, stream);
  };
  const cudaError_t result = sort(nullptr);
  if (result != cudaSuccess) return result;
  if (static_cast<int64_t>(bytes) > SortWorkspace(pairs)) return cudaErrorInvalidValue;
  return sort(workspace);
}

}  // namespace dp::engine::cuda

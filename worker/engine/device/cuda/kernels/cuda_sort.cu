#include "worker/engine/device/cuda/kernels/cuda_sort.h"

#include <cub/device/device_radix_sort.cuh>

namespace dp::engine::cuda {

cudaError_t SortWorkspace(int64_t pairs, int bits, int64_t* bytes) {
  size_t needed = 0;
  const int32_t* const in = nullptr;
  int32_t* const out = nullptr;
  const cudaError_t result = cub::DeviceRadixSort::SortPairs(nullptr, needed, in, out, in, out,
                                                             static_cast<int>(pairs), 0, bits);
  *bytes = static_cast<int64_t>(needed);
  return result;
}

cudaError_t SortPairs(cudaStream_t stream, int64_t pairs, int bits, const SortArrays& arrays,
                      void* workspace, int64_t workspace_bytes) {
  size_t bytes = static_cast<size_t>(workspace_bytes);
  return cub::DeviceRadixSort::SortPairs(workspace, bytes, arrays.keys, arrays.sorted_keys,
                                         arrays.values, arrays.sorted_values,
                                         static_cast<int>(pairs), 0, bits, stream);
}

}  // namespace dp::engine::cuda

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "base/mutex.h"
#include "worker/engine/device/cuda/kernels/cuda_sort.h"
#include "worker/engine/device/cuda/testing/cuda_on_host_memory.h"

// The part of the CUDA runtime that kernels on the host need, linked instead of the runtime. Its
// memory is the host's, and a stream does its work at once. It records what it has allocated as
// device memory, and rejects a copy whose kind does not match its addresses.

namespace {

constexpr size_t kMemoryBytes = size_t{1} << 40;

// Arrays that were allocated and not freed: their sizes by their beginnings.
dp::Mutex memory_mu;
std::map<const char*, size_t> device_memory DP_GUARDED_BY(memory_mu);

bool Fits(cudaMemcpyKind kind, const void* to, const void* from, size_t bytes) {
  using dp::engine::cuda::on_host::IsDeviceMemory;
  const bool to_device = IsDeviceMemory(to, bytes), from_device = IsDeviceMemory(from, bytes);
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !from_device && !to_device;
    case cudaMemcpyHostToDevice:
      return !from_device && to_device;
    case cudaMemcpyDeviceToHost:
      return from_device && !to_device;
    case cudaMemcpyDeviceToDevice:
      return from_device && to_device;
    default:
      return kind == cudaMemcpyDefault;
  }
}

}  // namespace

namespace dp::engine::cuda::on_host {

bool IsDeviceMemory(const void* memory, size_t bytes) {
  const auto* const begin = static_cast<const char*>(memory);
  dp::MutexLock lock(memory_mu);
  auto after = device_memory.upper_bound(begin);
  if (after == device_memory.begin()) return false;
  const auto& [array, array_bytes] = *std::prev(after);
  return begin + bytes <= array + array_bytes;
}

int64_t DeviceBytes() {
  dp::MutexLock lock(memory_mu);
  int64_t bytes = 0;
  for (const auto& [array, array_bytes] : device_memory) bytes += static_cast<int64_t>(array_bytes);
  return bytes;
}

}  // namespace dp::engine::cuda::on_host

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  constexpr size_t kAlignment = 256;
  if (bytes > kMemoryBytes) return cudaErrorMemoryAllocation;
  if (posix_memalign(memory, kAlignment, bytes) != 0) return cudaErrorMemoryAllocation;
  dp::MutexLock lock(memory_mu);
  device_memory[static_cast<char*>(*memory)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  {
    dp::MutexLock lock(memory_mu);
    if (memory != nullptr && device_memory.erase(static_cast<char*>(memory)) == 0)
      return cudaErrorInvalidValue;
  }
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  if (bytes > 0) std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(memory, value, bytes);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes > 0 && !Fits(kind, to, from, bytes)) return cudaErrorInvalidValue;
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
// A multiprocessor has as much shared memory as an H100's.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (attribute != cudaDevAttrMaxSharedMemoryPerMultiprocessor) return cudaErrorInvalidValue;
  *value = 228 * 1024;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaError"; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error"; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error"; }
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = static_cast<cudaStream_t>(std::malloc(1));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::free(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  auto* const made = static_cast<unsigned*>(std::malloc(sizeof(flags)));
  *made = flags;
  *event = reinterpret_cast<cudaEvent_t>(made);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::free(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
// Rejects a wait that would spin, and so take a processor from the threads that load data.
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const unsigned flags = *reinterpret_cast<const unsigned*>(event);
  return (flags & cudaEventBlockingSync) != 0 ? cudaSuccess : cudaErrorInvalidValue;
}

}  // extern "C"

namespace dp::engine::cuda {

cudaError_t SortWorkspace(int64_t pairs, int, int64_t* bytes) {
  *bytes = pairs;  // any size will do
  return cudaSuccess;
}

cudaError_t SortPairs(cudaStream_t, int64_t pairs, int bits, const SortArrays& arrays,
                      void* workspace, int64_t workspace_bytes) {
  if (workspace == nullptr || workspace_bytes < pairs) return cudaErrorInvalidValue;
  std::vector<int64_t> order(pairs);
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto digits = [&](int64_t i) { return arrays.keys[i] & ((int64_t{1} << bits) - 1); };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return digits(a) < digits(b); });
  for (int64_t i = 0; i < pairs; ++i) {
    arrays.sorted_keys[i] = arrays.keys[order[i]];
    arrays.sorted_values[i] = arrays.values[order[i]];
  }
  return cudaSuccess;
}

}  // namespace dp::engine::cuda

#include "worker/engine/device/cuda/runtime/cuda_memory.h"

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(int64_t bytes) {
  DP_CHECK(bytes >= 0);
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  DP_CUDA_RETURN_IF_ERROR(cudaMalloc(&buffer.data_, bytes));
  buffer.bytes_ = bytes;
  return buffer;
}

// cudaFree's error comes from earlier work, and the next call returns it as well. A null buffer
// makes no call, because even that call may be forbidden while a stream is captured.
DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) cudaFree(data_);
}

absl::Status DeviceBuffer::Zero(cudaStream_t stream) {
  if (bytes_ == 0) return absl::OkStatus();
  DP_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(data_, 0, bytes_, stream));
  return absl::OkStatus();
}

absl::StatusOr<Arena> Arena::Allocate(ArenaPlan plan) {
  Arena arena;
  DP_ASSIGN_OR_RETURN(arena.memory_, DeviceBuffer::Allocate(plan.bytes));
  arena.plan_ = std::move(plan);
  return arena;
}

}  // namespace dp::engine::cuda

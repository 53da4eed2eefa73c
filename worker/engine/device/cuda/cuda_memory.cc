#include "worker/engine/device/cuda/cuda_memory.h"

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/cuda_status.h"

namespace dp::engine::cuda {

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(int64_t bytes) {
  DP_CHECK(bytes >= 0);
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  DP_CUDA_RETURN_IF_ERROR(cudaMalloc(&buffer.data_, bytes));
  buffer.bytes_ = bytes;
  return buffer;
}

// What a free answers is an error of work before it, which the next call answers as well. Of
// nothing it would still be a call that a stream's capture may not have.
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

#include "worker/engine/device/cuda/runtime/cuda_stream.h"

#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {

absl::StatusOr<Event> Event::Make() {
  Event event;
  cudaEvent_t made = nullptr;
  DP_CUDA_RETURN_IF_ERROR(
      cudaEventCreateWithFlags(&made, cudaEventDisableTiming | cudaEventBlockingSync));
  event.event_.reset(made);
  return event;
}

absl::Status Event::Record(cudaStream_t stream) {
  DP_CUDA_RETURN_IF_ERROR(cudaEventRecord(event_.get(), stream));
  return absl::OkStatus();
}

absl::Status Event::Synchronize() const {
  DP_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(event_.get()));
  return absl::OkStatus();
}

absl::StatusOr<Stream> Stream::Make() {
  Stream stream;
  cudaStream_t made = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  stream.stream_.reset(made);
  return stream;
}

absl::Status Stream::Synchronize() const {
  DP_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream_.get()));
  return absl::OkStatus();
}

}  // namespace dp::engine::cuda

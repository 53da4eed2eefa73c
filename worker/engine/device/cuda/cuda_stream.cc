#include "worker/engine/device/cuda/cuda_stream.h"

#include "worker/engine/device/cuda/cuda_status.h"

namespace dp::engine::cuda {

absl::StatusOr<Event> Event::Make() {
  Event event;
  cudaEvent_t made = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
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

absl::StatusOr<bool> Event::Reached() const {
  const cudaError_t result = cudaEventQuery(event_.get());
  if (result == cudaErrorNotReady) {
    // CUDA notes this answer as an error, which the check after a later launch would find.
    (void)cudaGetLastError();
    return false;
  }
  DP_CUDA_RETURN_IF_ERROR(result);
  return true;
}

absl::StatusOr<Stream> Stream::Make(Priority priority) {
  int least = 0;
  int greatest = 0;
  DP_CUDA_RETURN_IF_ERROR(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  Stream stream;
  cudaStream_t made = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithPriority(
      &made, cudaStreamNonBlocking, priority == Priority::kHigh ? greatest : least));
  stream.stream_.reset(made);
  return stream;
}

absl::Status Stream::Wait(const Event& event) {
  DP_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream_.get(), event.get(), 0));
  return absl::OkStatus();
}

absl::Status Stream::Synchronize() const {
  DP_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream_.get()));
  return absl::OkStatus();
}

}  // namespace dp::engine::cuda

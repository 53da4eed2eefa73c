// The parts of the runtime and of cuDNN's handle that plans need beside cuda_on_host_runtime, on
// the host. Every time that is measured is 1 ms; there are no graphs.

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "worker/engine/device/cuda/runtime/cuda_graph.h"

extern "C" {

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* card, int) {
  *card = {};
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{1} << 30;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventBlockingSync);
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 300;  // as after which a card is at its clock
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new char);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"

namespace dp::engine::cuda {

absl::StatusOr<GraphExec> CaptureGraph(cudaStream_t, const std::function<absl::Status()>&) {
  return absl::UnimplementedError("there are no graphs on the host");
}
absl::Status GraphExec::Launch(cudaStream_t) const {
  return absl::UnimplementedError("there are no graphs on the host");
}

}  // namespace dp::engine::cuda

#include "worker/engine/device/cuda/runtime/cuda_status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace dp::engine::cuda {
namespace {

absl::string_view BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

absl::Status Refused(absl::StatusCode code, const Call& call, absl::string_view what) {
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess) device = -1;
  (void)cudaGetLastError();  // for its effect: it clears the thread's last error
  const std::string place = device < 0 ? "" : absl::StrCat(" on device ", device);
  return absl::Status(
      code, absl::StrCat(BaseName(call.file), ":", call.line, ": ", call.text, place, ": ", what));
}

absl::StatusCode CodeOf(cudaError_t result) {
  switch (result) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorStubLibrary:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:  // such as when NVSwitch's fabric manager does not run
      return absl::StatusCode::kUnavailable;
    case cudaErrorNotSupported:
    case cudaErrorNoKernelImageForDevice:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::StatusCode CodeOf(cublasStatus_t result) {
  switch (result) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return absl::StatusCode::kResourceExhausted;
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

// cuDNN numbers its results by category, a thousand to each.
absl::StatusCode CodeOf(cudnnStatus_t result) {
  if (result == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      result == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    return absl::StatusCode::kResourceExhausted;
  }
  // An engine that this host's NVRTC cannot compile is an engine that cuDNN lacks here.
  return CUDNN_STATUS_CATEGORY(result) == CUDNN_STATUS_NOT_SUPPORTED ||
                 result == CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED
             ? absl::StatusCode::kUnimplemented
             : absl::StatusCode::kInternal;
}

}  // namespace

absl::Status RefusedStatus(cudaError_t result, const Call& call) {
  const std::string what =
      absl::StrCat(cudaGetErrorString(result), " (", cudaGetErrorName(result), ")");
  return Refused(CodeOf(result), call, what);
}

absl::Status RefusedStatus(cublasStatus_t result, const Call& call) {
  return Refused(CodeOf(result), call, cublasLtGetStatusString(result));
}

absl::Status RefusedStatus(cudnnStatus_t result, const Call& call) {
  return Refused(CodeOf(result), call, cudnnGetErrorString(result));
}

}  // namespace dp::engine::cuda

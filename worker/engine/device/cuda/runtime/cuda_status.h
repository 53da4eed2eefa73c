#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Returns the error of a call to CUDA, cuBLAS(Lt) or cuDNN, or to a kernel's launch function, as a
// Status:
//
//   DP_CUDA_RETURN_IF_ERROR(cudaMalloc(&data, bytes));
#define DP_CUDA_RETURN_IF_ERROR(call)                                                         \
  do {                                                                                        \
    const auto dp_cuda_result_ = (call);                                                      \
    if (static_cast<int>(dp_cuda_result_) != 0) {                                             \
      return ::dp::engine::cuda::RefusedStatus(dp_cuda_result_, {__FILE__, __LINE__, #call}); \
    }                                                                                         \
  } while (false)

namespace dp::engine::cuda {

// Where a call stands in the source, and its text.
struct Call {
  absl::string_view file;
  int line = 0;
  absl::string_view text;
};

// The Status of a result other than success: "cuda_memory.cc:12: cudaMalloc(&data, bytes) on device
// 0: out of memory (cudaErrorMemoryAllocation)". Clears the thread's last CUDA error, so that a
// later check does not find it again.
// Errors: ResourceExhausted memory is short; Unimplemented the library does not support the call;
// Unavailable no device or driver; Internal otherwise.
absl::Status RefusedStatus(cudaError_t result, const Call& call);
absl::Status RefusedStatus(cublasStatus_t result, const Call& call);
absl::Status RefusedStatus(cudnnStatus_t result, const Call& call);

}  // namespace dp::engine::cuda

#include "worker/engine/device/cuda/runtime/cuda_status.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine::cuda {
namespace {

using testing::HasSubstr;

template <typename Result>
absl::Status Refused(Result result) {
  return RefusedStatus(result, {"/src/cuda_memory.cc", 12, "cudaMalloc(&data, bytes)"});
}

TEST(CudaStatusTest, ItNamesPlaceCallAndError) {
  const std::string message(Refused(cudaErrorMemoryAllocation).message());
  EXPECT_THAT(message, HasSubstr("cuda_memory.cc:12: cudaMalloc(&data, bytes)"));
  EXPECT_THAT(message, HasSubstr("out of memory (cudaErrorMemoryAllocation)"));
}

TEST(CudaStatusTest, AHostWithoutWhatItNeedsIsUnavailable) {
  for (const cudaError_t error :
       {cudaErrorNoDevice, cudaErrorInsufficientDriver, cudaErrorCallRequiresNewerDriver,
        cudaErrorSystemDriverMismatch, cudaErrorSystemNotReady, cudaErrorStubLibrary}) {
    EXPECT_TRUE(absl::IsUnavailable(Refused(error))) << cudaGetErrorName(error);
  }
}

TEST(CudaStatusTest, EachLibrarySaysWhatItHasNoFormOfAndWhatHasNoRoom) {
  EXPECT_TRUE(absl::IsUnimplemented(Refused(cudaErrorNoKernelImageForDevice)));
  EXPECT_TRUE(absl::IsUnimplemented(Refused(CUBLAS_STATUS_NOT_SUPPORTED)));
  EXPECT_TRUE(absl::IsUnimplemented(Refused(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN)));
  EXPECT_TRUE(absl::IsUnimplemented(Refused(CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED)));
  EXPECT_TRUE(absl::IsResourceExhausted(Refused(CUBLAS_STATUS_ALLOC_FAILED)));
  EXPECT_TRUE(
      absl::IsResourceExhausted(Refused(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)));
  EXPECT_TRUE(absl::IsInternal(Refused(cudaErrorIllegalAddress)));
}

}  // namespace
}  // namespace dp::engine::cuda

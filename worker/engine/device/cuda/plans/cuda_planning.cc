#include "worker/engine/device/cuda/plans/cuda_planning.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {

absl::StatusOr<Libraries> Libraries::Open() {
  int device = 0;
  DP_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
  cudaDeviceProp card;
  DP_CUDA_RETURN_IF_ERROR(cudaGetDeviceProperties(&card, device));

  Libraries libraries;
  cublasLtHandle_t blas = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cublasLtCreate(&blas));
  libraries.blas_.reset(blas);
  cudnnHandle_t dnn = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cudnnCreate(&dnn));
  libraries.dnn_.reset(dnn);
  libraries.sms_ = card.multiProcessorCount;
  libraries.environment_ =
      absl::StrReplaceAll(absl::StrCat(card.name, ", ", card.multiProcessorCount, " SMs, cublasLt ",
                                       cublasLtGetVersion(), ", cudnn ", cudnnGetVersion()),
                          {{"\t", " "}, {"\n", " "}});
  return libraries;
}

}  // namespace dp::engine::cuda

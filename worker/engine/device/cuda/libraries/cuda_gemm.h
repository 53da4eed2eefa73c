#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/libraries/cuda_gemm_shape.h"
#include "worker/engine/device/cuda/plans/cuda_planning.h"

namespace dp::engine::cuda {

// Addresses in device memory; null where the epilogue does not use them.
struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  void* bias = nullptr;  // read; written where the epilogue gives its gradient
  void* aux = nullptr;   // m x n; kBiasGeluAux writes it, kGeluGradient reads it
};

// One product through cuBLASLt, with fixed descriptors. May serve all layers of its shape. Not
// thread-safe.
class GemmPlan {
 public:
  // With Tuning::kTimed, unless the cache knows the shape, runs the candidates on `scratch`. They
  // read a, b and bias, which may hold anything, and overwrite what Run would. kFirst does not read
  // `scratch`.
  // Errors: Unimplemented cuBLASLt has no algorithm, or WhyNot gives a reason.
  static absl::StatusOr<GemmPlan> Make(const Planning& planning, const GemmShape& shape,
                                       const GemmOperands& scratch);

  // Queues the product. Waits for nothing and allocates nothing. May be captured, but only after a
  // run outside a capture, in which the library loads its kernel.
  absl::Status Run(cudaStream_t stream, const GemmOperands& operands, float alpha = 1);

 private:
  struct Destroy {
    void operator()(cublasLtMatmulDesc_t desc) const { cublasLtMatmulDescDestroy(desc); }
    void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
  };
  using Desc = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy>;
  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy>;

  GemmPlan(const Planning& planning, const GemmShape& shape);
  absl::Status MakeDescriptors();
  absl::Status Point(const void* bias, const void* aux);
  absl::Status ChooseAlgorithm(const Planning& planning, const GemmOperands& scratch);

  GemmShape shape_;
  cublasLtHandle_t blas_ = nullptr;
  void* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
  Desc desc_;
  // LayoutsOf(shape_).
  Layout a_;
  Layout b_;
  Layout out_;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace dp::engine::cuda

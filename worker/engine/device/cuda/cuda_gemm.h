#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/cuda_gemm_shape.h"
#include "worker/engine/device/cuda/cuda_planning.h"

namespace dp::engine::cuda {

// Device memory. Null where the epilogue has no use for it.
struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  void* bias = nullptr;  // read; written where the epilogue gives a gradient of it
  void* aux = nullptr;   // m x n; kBiasGeluAux writes it, kGeluGradient* read it
};

// One product through cuBLASLt, its descriptors fixed. May serve all layers of its shape. Not
// thread-safe.
class GemmPlan {
 public:
  // With Tuning::kTimed and unless the cache knows the shape, runs the candidates on `scratch`:
  // reads a, b and bias, which may hold anything, and overwrites what Run would. With kFirst
  // `scratch` is not looked at.
  // Errors: Unimplemented where cuBLASLt has no algorithm or WhyNot says so.
  static absl::StatusOr<GemmPlan> Make(const Planning& planning, const GemmShape& shape,
                                       const GemmOperands& scratch);

  // Queues the product. Waits for nothing and allocates nothing; may be captured, after a run that
  // was not, in which the library loads its kernel.
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

#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/cuda_element_type.h"
#include "worker/engine/device/cuda/cuda_planning.h"

namespace dp::engine::cuda {

// What is done to a product before it is stored. GELU is cuBLASLt's, which is the approximation by
// tanh: that of model::Gelu.
enum class Epilogue {
  kNone,
  kBias,         // adds bias[n] to every row
  kBiasRelu,     // then the ReLU
  kBiasGelu,     // then the GELU
  kBiasGeluAux,  // and stores what goes into the GELU in `aux`, for backward
  // The product is the gradient of a GELU's output; stores that of its input, which is in `aux`.
  kGeluGradient,
  kGeluGradientBias,  // and the sums over its rows in bias[n]: the gradient of the bias before it
  // Stores the sums over k of op(a) in bias[m]: where a is the transposed gradient of a linear
  // layer's output and the product that of its weight, the gradient of its bias.
  kBiasGradient,
};

// out[m x n] = alpha op(a)[m x k] op(b)[k x n] (+ out), of dense row-major matrices. A linear layer
// forward is {rows, out, in, transpose_b}; the gradient of its input {rows, in, out}; that of its
// weight {out, in, rows, transpose_a}.
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;  // a is stored as k x m
  bool transpose_b = false;  // b is stored as n x k
  int64_t batch = 1;         // products, their matrices one after another; with kNone alone
  ElementType in = ElementType::kFloat32;   // of a and b
  ElementType out = ElementType::kFloat32;  // of out, bias and aux
  Epilogue epilogue = Epilogue::kNone;
  bool accumulate = false;  // adds to what is in `out`
  bool tf32 = false;        // float32 products in TF32's 10 bits; otherwise in full
  int64_t alignment = 16;   // bytes; a power of 2 that divides every address given to Run
};

// Device memory. Null where the epilogue has no use for it.
struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  void* bias = nullptr;  // read; written where the epilogue gives a gradient of it
  void* aux = nullptr;   // m x n; kBiasGeluAux writes it, kGeluGradient* read it
};

// The shape in words, for the cache and for errors: "gemm m=64 n=32 k=16 tn float32>float32 bias".
std::string Describe(const GemmShape& shape);

// Why no plan is made for a shape, empty if nothing is known against it: what cuBLASLt is not asked
// for. n must be a multiple of 8 where aux is used.
std::string WhyNot(const GemmShape& shape);

// One product through cuBLASLt, its descriptors fixed. Owned by a layer; not thread-safe.
class GemmPlan {
 public:
  // With Tuning::kTimed and unless the cache knows the shape, runs the candidates on `scratch`:
  // reads a, b and bias, which may hold anything, and overwrites what Run would. Errors:
  // Unimplemented where cuBLASLt has no algorithm or WhyNot says so.
  static absl::StatusOr<GemmPlan> Make(const Planning& planning, const GemmShape& shape,
                                       const GemmOperands& scratch);

  // Queues the product. Waits for nothing and allocates nothing; may be captured.
  absl::Status Run(cudaStream_t stream, const GemmOperands& operands, float alpha = 1);

 private:
  struct Destroy {
    void operator()(cublasLtMatmulDesc_t desc) const { cublasLtMatmulDescDestroy(desc); }
    void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
  };
  using Desc = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy>;
  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy>;

  GemmPlan(const Planning& planning, const GemmShape& shape);
  absl::Status Describe();
  absl::Status Point(const GemmOperands& operands);
  absl::Status Choose(const Planning& planning, const GemmOperands& scratch);

  GemmShape shape_;
  cublasLtHandle_t blas_;
  void* workspace_;
  int64_t workspace_bytes_;
  Desc desc_;
  // In cuBLASLt's order: matrices by columns, so that its A is our b and its B our a.
  Layout a_;
  Layout b_;
  Layout out_;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace dp::engine::cuda

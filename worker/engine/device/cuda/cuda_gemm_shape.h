#pragma once

#include <cstdint>
#include <string>

#include "worker/engine/device/cuda/cuda_element_type.h"

namespace dp::engine::cuda {

// What is done to a product before it is stored. GELU is cuBLASLt's, which is the approximation by
// tanh: that of model::Gelu.
enum class Epilogue {
  kNone,
  kBias,         // adds bias[n] to every row
  kBiasRelu,     // then the ReLU
  kBiasGeluAux,  // then the GELU, and stores what goes into it in `aux`, for backward
  // The product is the gradient of a GELU's output; stores that of its input, which is in `aux`.
  kGeluGradient,
  // Stores the sums over k of op(a) in bias[m]: where a is the transposed gradient of a linear
  // layer's output and the product that of its weight, the gradient of its bias.
  kBiasGradient,
};

// out[m x n] = alpha op(a)[m x k] op(b)[k x n], of dense row-major matrices. A linear layer
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
  bool tf32 = false;       // float32 products in TF32's 10 bits; otherwise in full
  int64_t alignment = 16;  // bytes; a power of 2 that divides every address given to Run
};

constexpr bool UsesBias(Epilogue epilogue) {
  return epilogue != Epilogue::kNone && epilogue != Epilogue::kGeluGradient;
}
constexpr bool UsesAux(Epilogue epilogue) {
  return epilogue == Epilogue::kBiasGeluAux || epilogue == Epilogue::kGeluGradient;
}

// The shape in words, for the cache and for errors: "gemm m=64 n=32 k=16 nt bfloat16>float32 bias".
std::string Describe(const GemmShape& shape);

// Why no plan is made for a shape, empty if nothing is known against it: what cuBLASLt is not asked
// for. n must be a multiple of 8 where aux is used.
std::string WhyNot(const GemmShape& shape);

// A matrix as cuBLASLt sees it: by columns, `stride` elements from one to the next.
struct ColumnMajor {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
  int64_t batch_stride = 0;

  friend bool operator==(const ColumnMajor&, const ColumnMajor&) = default;
};

// A row-major matrix read by columns is its transpose, and outᵀ = op(b)ᵀ op(a)ᵀ: cuBLASLt's A is
// our b and its B our a, both transposed where ours are.
struct GemmLayouts {
  ColumnMajor a;    // of our b
  ColumnMajor b;    // of our a
  ColumnMajor out;  // n x m
};
GemmLayouts LayoutsOf(const GemmShape& shape);

}  // namespace dp::engine::cuda

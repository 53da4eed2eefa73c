#pragma once

#include <cstdint>
#include <string>

#include "worker/engine/device/cuda/libraries/cuda_element_type.h"

namespace dp::engine::cuda {

// The operation on a product before it is stored. GELU is cuBLASLt's, the approximation by tanh, as
// in model::Gelu.
enum class Epilogue {
  kNone,
  kBias,         // adds bias[n] to every row
  kBiasRelu,     // then the ReLU
  kBiasGeluAux,  // then the GELU; stores the GELU's input in `aux`, for backward
  // Takes the product as the gradient of a GELU's output and stores the gradient of the GELU's
  // input; the input is in `aux`.
  kGeluGradient,
  // Stores the sums over k of op(a) in bias[m]. These are a bias's gradient if a is the transposed
  // gradient of a linear layer's output and the product the gradient of its weight.
  kBiasGradient,
};

// out[m x n] = alpha op(a)[m x k] op(b)[k x n], of dense row-major matrices. A linear layer forward
// is {rows, out, in, transpose_b}. The gradient of its input is {rows, in, out}, that of its weight
// {out, in, rows, transpose_a}.
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;  // a is stored as k x m
  bool transpose_b = false;  // b is stored as n x k
  int64_t batch = 1;  // products, whose matrices lie one after another; above 1 only with kNone
  ElementType in = ElementType::kFloat32;   // of a and b
  ElementType out = ElementType::kFloat32;  // of out, bias and aux
  Epilogue epilogue = Epilogue::kNone;
  bool tf32 = false;  // rounds float32 factors to TF32's 10 bits; otherwise computes in full
  int sms = 0;  // the product is to fill at most as many of the card's processors; 0: all of them
  int64_t alignment = 16;  // bytes; a power of 2 that divides every address given to Run
};

constexpr bool UsesBias(Epilogue epilogue) {
  return epilogue != Epilogue::kNone && epilogue != Epilogue::kGeluGradient;
}
constexpr bool UsesAux(Epilogue epilogue) {
  return epilogue == Epilogue::kBiasGeluAux || epilogue == Epilogue::kGeluGradient;
}

// The shape in words, for the cache and for errors: "gemm m=64 n=32 k=16 nt bfloat16>float32 bias
// align=16".
std::string Describe(const GemmShape& shape);

// GemmShape::sms where collectives have `blocks` thread blocks on a card of `card_sms` processors.
// Leaves the product at least half of the card. 0 if there are no blocks.
int SmsBeside(int blocks, int card_sms);

// Why cuBLASLt is not tried for a shape; empty if nothing is known against it. n must be a multiple
// of 8 where aux is used.
std::string WhyNot(const GemmShape& shape);

// A matrix as cuBLASLt sees it: column-major, `stride` elements from a column to the next.
struct ColumnMajor {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
  int64_t batch_stride = 0;

  friend bool operator==(const ColumnMajor&, const ColumnMajor&) = default;
};

// A row-major matrix read by columns is its transpose, and outᵀ = op(b)ᵀ op(a)ᵀ. cuBLASLt's A is
// therefore our b, and its B our a; each is transposed where ours is.
struct GemmLayouts {
  ColumnMajor a;    // of our b
  ColumnMajor b;    // of our a
  ColumnMajor out;  // n x m
};
GemmLayouts LayoutsOf(const GemmShape& shape);

}  // namespace dp::engine::cuda

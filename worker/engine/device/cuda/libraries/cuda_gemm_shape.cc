#include "worker/engine/device/cuda/libraries/cuda_gemm_shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dp::engine::cuda {
namespace {

absl::string_view Name(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return "none";
    case Epilogue::kBias:
      return "bias";
    case Epilogue::kBiasRelu:
      return "bias-relu";
    case Epilogue::kBiasGeluAux:
      return "bias-gelu-aux";
    case Epilogue::kGeluGradient:
      return "gelu-gradient";
    case Epilogue::kBiasGradient:
      return "bias-gradient";
  }
  return "";
}

}  // namespace

std::string Describe(const GemmShape& shape) {
  return absl::StrCat(
      "gemm m=", shape.m, " n=", shape.n, " k=", shape.k, " ", shape.transpose_a ? "t" : "n",
      shape.transpose_b ? "t" : "n", " ", Name(shape.in), ">", Name(shape.out), " ",
      Name(shape.epilogue), shape.batch > 1 ? absl::StrCat(" batch=", shape.batch) : "",
      shape.tf32 ? " tf32" : "", shape.sms > 0 ? absl::StrCat(" sms=", shape.sms) : "",
      " align=", shape.alignment);
}

int SmsBeside(int blocks, int card_sms) {
  if (blocks < 1) return 0;
  return std::max(card_sms - blocks, card_sms / 2);
}

std::string WhyNot(const GemmShape& shape) {
  if (shape.m < 1 || shape.n < 1 || shape.k < 1 || shape.batch < 1) return "a size below 1";
  if (shape.alignment < ByteSize(shape.in) || (shape.alignment & (shape.alignment - 1)) != 0) {
    return absl::StrCat("an alignment of ", shape.alignment, " bytes");
  }
  if (shape.in == ElementType::kFloat32 && shape.out == ElementType::kBfloat16) {
    return "float32 factors with a bfloat16 product";
  }
  if (UsesAux(shape.epilogue) && shape.n % 8 != 0) {
    return absl::StrCat("n is ", shape.n, ", but ", Name(shape.epilogue), " takes multiples of 8");
  }
  if (shape.batch > 1 && shape.epilogue != Epilogue::kNone) {
    return absl::StrCat("a batch of ", shape.batch, " with the epilogue ", Name(shape.epilogue));
  }
  return "";
}

GemmLayouts LayoutsOf(const GemmShape& shape) {
  const int64_t m = shape.m;
  const int64_t n = shape.n;
  const int64_t k = shape.k;
  const ColumnMajor b =
      shape.transpose_b ? ColumnMajor{k, n, k, n * k} : ColumnMajor{n, k, n, n * k};
  const ColumnMajor a =
      shape.transpose_a ? ColumnMajor{m, k, m, m * k} : ColumnMajor{k, m, k, m * k};
  return {.a = b, .b = a, .out = {n, m, n, m * n}};
}

}  // namespace dp::engine::cuda

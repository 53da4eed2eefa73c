#include "worker/engine/device/cuda/libraries/cuda_gemm.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/plans/cuda_plan_tuning.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

cudaDataType_t BlasType(ElementType type) {
  return type == ElementType::kFloat32 ? CUDA_R_32F : CUDA_R_16BF;
}

cublasLtEpilogue_t BlasEpilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kBiasRelu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::kBiasGeluAux:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kGeluGradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::kBiasGradient:
      return CUBLASLT_EPILOGUE_BGRADB;  // our a is its B
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// Rounds float32 factors to TF32 only where the shape asks for it.
cublasComputeType_t ComputeType(const GemmShape& shape) {
  const bool tf32 = shape.tf32 && shape.in == ElementType::kFloat32;
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

template <typename Value>
absl::Status SetDesc(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, Value value) {
  DP_CUDA_RETURN_IF_ERROR(cublasLtMatmulDescSetAttribute(desc, name, &value, sizeof(value)));
  return absl::OkStatus();
}

template <typename Value>
absl::Status SetLayout(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                       Value value) {
  DP_CUDA_RETURN_IF_ERROR(cublasLtMatrixLayoutSetAttribute(layout, name, &value, sizeof(value)));
  return absl::OkStatus();
}

template <typename Value>
absl::Status SetPreference(cublasLtMatmulPreference_t preference,
                           cublasLtMatmulPreferenceAttributes_t name, Value value) {
  DP_CUDA_RETURN_IF_ERROR(
      cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof(value)));
  return absl::OkStatus();
}

absl::StatusOr<cublasLtMatrixLayout_t> MakeLayout(const ColumnMajor& matrix, ElementType type,
                                                  int64_t batch) {
  cublasLtMatrixLayout_t layout = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cublasLtMatrixLayoutCreate(&layout, BlasType(type), matrix.rows,
                                                     matrix.columns, matrix.stride));
  if (batch == 1) return layout;
  absl::Status set =
      SetLayout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
  set.Update(SetLayout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch_stride));
  if (set.ok()) return layout;
  cublasLtMatrixLayoutDestroy(layout);
  return set;
}

struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t preference) const {
    cublasLtMatmulPreferenceDestroy(preference);
  }
};
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyPreference>;

// How an algorithm that splits k may add the parts. Its default may round each part to the type of
// the output, which for bf16 loses digits of the sum.
uint32_t ReductionSchemes(const GemmShape& shape) {
  return shape.out == ElementType::kFloat32 ? CUBLASLT_REDUCTION_SCHEME_MASK
                                            : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

absl::StatusOr<Preference> MakePreference(const GemmShape& shape, size_t workspace_bytes) {
  cublasLtMatmulPreference_t made = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cublasLtMatmulPreferenceCreate(&made));
  Preference preference(made);
  DP_RETURN_IF_ERROR(SetPreference(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                   static_cast<uint64_t>(workspace_bytes)));
  DP_RETURN_IF_ERROR(
      SetPreference(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, ReductionSchemes(shape)));
  for (const auto name :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    DP_RETURN_IF_ERROR(SetPreference(made, name, static_cast<uint32_t>(shape.alignment)));
  }
  return preference;
}

// An address of exactly this alignment, for calls that inspect an address but read no memory there.
const void* AddressAligned(int64_t alignment) { return reinterpret_cast<const void*>(alignment); }

// One attribute of an algorithm, and its word in the name.
struct AlgorithmPart {
  cublasLtMatmulAlgoConfigAttributes_t attribute;
  absl::string_view word;
  size_t bytes;
};
constexpr AlgorithmPart kAlgorithmParts[] = {
    {CUBLASLT_ALGO_CONFIG_ID, "algo", 4},
    {CUBLASLT_ALGO_CONFIG_TILE_ID, " tile", 4},
    {CUBLASLT_ALGO_CONFIG_STAGES_ID, " stages", 4},
    {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, " splitk", 4},
    {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, " reduction", 4},
    {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, " swizzle", 4},
    {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, " custom", 4},
    {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, " inner", 2},
    {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, " cluster", 2},
};

// The algorithm in words. Its own bytes do not identify it: some of them mean nothing, and differ
// from one call of cuBLASLt to the next.
std::string AlgorithmName(const cublasLtMatmulAlgo_t& algorithm) {
  std::string name;
  for (const AlgorithmPart& part : kAlgorithmParts) {
    uint32_t value = 0;
    size_t written = 0;
    const cublasStatus_t told = cublasLtMatmulAlgoConfigGetAttribute(&algorithm, part.attribute,
                                                                     &value, part.bytes, &written);
    absl::StrAppend(&name, part.word, told == CUBLAS_STATUS_SUCCESS ? absl::StrCat(value) : "?");
  }
  return name;
}

// The names of the algorithms. If two have one name, the second says so.
std::vector<std::string> AlgorithmNames(
    const std::vector<cublasLtMatmulHeuristicResult_t>& algorithms) {
  std::vector<std::string> names;
  for (const auto& each : algorithms) {
    const std::string name = AlgorithmName(each.algo);
    const auto alike = std::count_if(names.begin(), names.end(), [&](const std::string& earlier) {
      return earlier == name || absl::StartsWith(earlier, absl::StrCat(name, " again"));
    });
    names.push_back(alike == 0 ? name : absl::StrCat(name, " again", alike));
  }
  return names;
}

bool IsAligned(const void* address, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

void CheckOperands(const GemmShape& shape, const GemmOperands& operands) {
  DP_CHECK(operands.a != nullptr && operands.b != nullptr && operands.out != nullptr);
  DP_CHECK((operands.bias != nullptr) == UsesBias(shape.epilogue));
  DP_CHECK((operands.aux != nullptr) == UsesAux(shape.epilogue));
  for (const void* address :
       {operands.a, operands.b, static_cast<const void*>(operands.out),
        static_cast<const void*>(operands.bias), static_cast<const void*>(operands.aux)}) {
    DP_CHECK(IsAligned(address, shape.alignment));
  }
}

}  // namespace

GemmPlan::GemmPlan(const Planning& planning, const GemmShape& shape)
    : shape_(shape),
      blas_(planning.libraries.blas()),
      workspace_(planning.workspace),
      workspace_bytes_(planning.workspace_bytes) {}

absl::StatusOr<GemmPlan> GemmPlan::Make(const Planning& planning, const GemmShape& shape,
                                        const GemmOperands& scratch) {
  const std::string why_not = WhyNot(shape);
  if (!why_not.empty()) {
    return absl::UnimplementedError(absl::StrCat(Describe(shape), ": ", why_not));
  }
  GemmPlan plan(planning, shape);
  DP_RETURN_IF_ERROR(plan.MakeDescriptors());
  const absl::Status chosen = plan.ChooseAlgorithm(planning, scratch);
  if (chosen.ok()) return plan;
  // cuBLASLt sometimes reports an unsupported epilogue as an invalid value. If the cause is
  // another, the product without the epilogue will report it.
  const bool epilogue = shape.epilogue != Epilogue::kNone;
  const bool no_form = epilogue && absl::IsInternal(chosen);
  return absl::Status(no_form ? absl::StatusCode::kUnimplemented : chosen.code(),
                      absl::StrCat(Describe(shape), ": ", chosen.message()));
}

absl::Status GemmPlan::MakeDescriptors() {
  cublasLtMatmulDesc_t desc = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cublasLtMatmulDescCreate(&desc, ComputeType(shape_), CUDA_R_32F));
  desc_.reset(desc);
  const auto operation = [](bool transpose) -> int32_t {
    return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  DP_RETURN_IF_ERROR(SetDesc(desc, CUBLASLT_MATMUL_DESC_TRANSA, operation(shape_.transpose_b)));
  DP_RETURN_IF_ERROR(SetDesc(desc, CUBLASLT_MATMUL_DESC_TRANSB, operation(shape_.transpose_a)));
  DP_RETURN_IF_ERROR(SetDesc(desc, CUBLASLT_MATMUL_DESC_EPILOGUE,
                             static_cast<uint32_t>(BlasEpilogue(shape_.epilogue))));
  if (UsesAux(shape_.epilogue)) {
    DP_RETURN_IF_ERROR(SetDesc(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape_.n));
  }
  if (shape_.sms > 0) {
    DP_RETURN_IF_ERROR(
        SetDesc(desc, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, static_cast<int32_t>(shape_.sms)));
  }
  const GemmLayouts layouts = LayoutsOf(shape_);
  DP_ASSIGN_OR_RETURN(const auto a, MakeLayout(layouts.a, shape_.in, shape_.batch));
  a_.reset(a);
  DP_ASSIGN_OR_RETURN(const auto b, MakeLayout(layouts.b, shape_.in, shape_.batch));
  b_.reset(b);
  DP_ASSIGN_OR_RETURN(const auto out, MakeLayout(layouts.out, shape_.out, shape_.batch));
  out_.reset(out);
  return absl::OkStatus();
}

absl::Status GemmPlan::Point(const void* bias, const void* aux) {
  if (UsesBias(shape_.epilogue)) {
    DP_RETURN_IF_ERROR(SetDesc(desc_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
  }
  if (UsesAux(shape_.epilogue)) {
    DP_RETURN_IF_ERROR(SetDesc(desc_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux));
  }
  return absl::OkStatus();
}

absl::Status GemmPlan::ChooseAlgorithm(const Planning& planning, const GemmOperands& scratch) {
  DP_ASSIGN_OR_RETURN(const Preference preference, MakePreference(shape_, workspace_bytes_));
  const void* any = AddressAligned(shape_.alignment);
  DP_RETURN_IF_ERROR(Point(any, any));
  std::vector<cublasLtMatmulHeuristicResult_t> found(kCandidatesMax);
  int count = 0;
  DP_CUDA_RETURN_IF_ERROR(cublasLtMatmulAlgoGetHeuristic(blas_, desc_.get(), a_.get(), b_.get(),
                                                         out_.get(), out_.get(), preference.get(),
                                                         kCandidatesMax, found.data(), &count));
  found.resize(count);
  return BuildBest(planning, {.plan = Describe(shape_),
                              .candidates = AlgorithmNames(found),
                              .build =
                                  [&](int i) {
                                    algorithm_ = found[i].algo;
                                    DP_CUDA_RETURN_IF_ERROR(found[i].state);
                                    return absl::OkStatus();
                                  },
                              .run = [&] { return Run(planning.stream, scratch); }});
}

absl::Status GemmPlan::Run(cudaStream_t stream, const GemmOperands& operands, float alpha) {
  CheckOperands(shape_, operands);
  DP_RETURN_IF_ERROR(Point(operands.bias, operands.aux));
  const float beta = 0;
  DP_CUDA_RETURN_IF_ERROR(cublasLtMatmul(
      blas_, desc_.get(), &alpha, operands.b, a_.get(), operands.a, b_.get(), &beta, operands.out,
      out_.get(), operands.out, out_.get(), &algorithm_, workspace_, workspace_bytes_, stream));
  return absl::OkStatus();
}

}  // namespace dp::engine::cuda

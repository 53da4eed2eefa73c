// cuBLASLt on the host, as its documentation describes it: products of column-major matrices with
// their epilogues, by plain loops in doubles. Linked instead of cuBLASLt, so that a test runs what
// our plans ask of it. An attribute whose size differs from the header's is rejected.

#include <cublasLt.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "worker/engine/device/cuda/testing/cuda_cublaslt_on_host.h"
#include "worker/engine/device/cuda/testing/cuda_on_host_memory.h"

namespace dp::engine::cuda::on_host {
namespace {

// The attributes that were set on a descriptor, layout or preference.
struct LtNote {
  std::map<int, std::vector<char>> attributes;

  template <typename Value>
  Value One(int name, Value otherwise = {}) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return otherwise;
    std::memcpy(&otherwise, found->second.data(), sizeof(otherwise));
    return otherwise;
  }
  cublasStatus_t Set(int name, const void* value, size_t bytes, size_t expected) {
    if (bytes != expected) return CUBLAS_STATUS_INVALID_VALUE;
    const auto* const first = static_cast<const char*>(value);
    attributes[name] = {first, first + bytes};
    return CUBLAS_STATUS_SUCCESS;
  }
};

struct LtLayout : LtNote {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t stride;
};

template <typename Made, typename Opaque>
Made& Behind(Opaque* opaque) {
  return *reinterpret_cast<Made*>(opaque);
}

// One matrix of a layout's batch, transposed if the operation says so.
class LtMatrix {
 public:
  LtMatrix(const void* data, const LtLayout& layout, int64_t batch,
           cublasOperation_t operation = CUBLAS_OP_N)
      : data_(const_cast<void*>(data)),
        type_(layout.type),
        stride_(layout.stride),
        first_(batch * layout.One<int64_t>(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)),
        transposed_(operation == CUBLAS_OP_T) {}
  LtMatrix(const void* data, cudaDataType type, int64_t stride)
      : data_(const_cast<void*>(data)), type_(type), stride_(stride) {}

  double Get(int64_t row, int64_t column) const {
    const int64_t at = At(row, column);
    return type_ == CUDA_R_32F ? static_cast<const float*>(data_)[at]
                               : __bfloat162float(static_cast<const __nv_bfloat16*>(data_)[at]);
  }
  void Set(int64_t row, int64_t column, double value) const {
    const int64_t at = At(row, column);
    const auto rounded = static_cast<float>(value);
    if (type_ == CUDA_R_32F) {
      static_cast<float*>(data_)[at] = rounded;
    } else {
      static_cast<__nv_bfloat16*>(data_)[at] = __float2bfloat16_rn(rounded);
    }
  }

 private:
  int64_t At(int64_t row, int64_t column) const {
    if (transposed_) std::swap(row, column);
    return first_ + row + column * stride_;
  }

  void* data_;
  cudaDataType type_;
  int64_t stride_, first_ = 0;
  bool transposed_ = false;
};

double AsBfloat16(double value) {
  return __bfloat162float(__float2bfloat16_rn(static_cast<float>(value)));
}

double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double GeluSlope(double x) {
  const double root = std::sqrt(2 / M_PI);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

// An element of the product after the epilogue.
double WithEpilogue(uint32_t epilogue, double value, double bias, const LtMatrix& aux, int64_t row,
                    int64_t column) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
      return value + bias;
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      return std::max(value + bias, 0.0);
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      aux.Set(row, column, value + bias);
      return Gelu(value + bias);
    case CUBLASLT_EPILOGUE_DGELU:
      return value * GeluSlope(aux.Get(row, column));
    default:
      return value;
  }
}

bool ReadsBias(uint32_t epilogue) { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }

size_t SizeOf(cublasLtMatmulDescAttributes_t name) {
  switch (name) {
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return 8;
    default:
      return 4;
  }
}

// How many algorithms were given.
std::atomic<uint64_t> lt_calls = 0;

std::atomic<int> last_sms = 0;

int32_t SmsOf(const LtNote& desc) {
  return desc.One<int32_t>(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET);
}

bool OnDevice(const void* memory) { return memory == nullptr || IsDeviceMemory(memory, 1); }

}  // namespace

int SmsOfLastProduct() { return last_sms; }

}  // namespace dp::engine::cuda::on_host

using namespace dp::engine::cuda::on_host;  // NOLINT: the functions below are the library's

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return 0; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new LtNote);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete &Behind<LtNote>(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t bytes) {
  return Behind<LtNote>(desc).Set(name, value, bytes, SizeOf(name));
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t stride) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new LtLayout{{}, type, rows, columns, stride});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &Behind<LtLayout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, size_t bytes) {
  const bool counts = name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
  return Behind<LtLayout>(layout).Set(name, value, bytes, counts ? 4 : 8);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new LtNote);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &Behind<LtNote>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, size_t bytes) {
  const bool workspace = name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  return Behind<LtNote>(preference).Set(name, value, bytes, workspace ? 8 : 4);
}

// Gives two algorithms that compute alike. Before them, where the preference allows it, one that
// splits k in two and rounds both sums. Bytes that mean nothing differ from call to call.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  const auto schemes = Behind<LtNote>(preference)
                           .One<uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                          CUBLASLT_REDUCTION_SCHEME_MASK);
  const bool rounds = (schemes & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) != 0;
  *count = std::min(requested, rounds ? 3 : 2);
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo.data[0] = static_cast<uint64_t>(i + 1);
    results[i].algo.data[1] = rounds && i == 0;
    results[i].algo.data[2] = static_cast<uint64_t>(SmsOf(Behind<LtNote>(desc)));
    results[i].algo.data[5] = ++lt_calls;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void* value, size_t bytes, size_t* written) {
  const bool is_short =
      name == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID || name == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
  if (bytes != (is_short ? 2 : 4)) return CUBLAS_STATUS_INVALID_VALUE;
  const uint64_t told = name == CUBLASLT_ALGO_CONFIG_ID ? algorithm->data[0] : 0;
  std::memcpy(value, &told, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t) {
  const LtNote& note = Behind<LtNote>(desc);
  const LtLayout& out = Behind<LtLayout>(d_layout);
  const auto epilogue =
      note.One<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  void* const bias = note.One<void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  void* const aux_data = note.One<void*>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  for (const void* memory : {a, b, c, static_cast<const void*>(d), static_cast<const void*>(bias),
                             static_cast<const void*>(aux_data)}) {
    if (!OnDevice(memory)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  // An algorithm is for the number of processors that it was asked for.
  if (algorithm->data[2] != static_cast<uint64_t>(SmsOf(note))) return CUBLAS_STATUS_INVALID_VALUE;
  last_sms = SmsOf(note);
  if (algorithm->data[0] == 0 || !IsDeviceMemory(workspace, workspace_bytes)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto operation_a =
      static_cast<cublasOperation_t>(note.One<int32_t>(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N));
  const auto operation_b =
      static_cast<cublasOperation_t>(note.One<int32_t>(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N));
  const bool rounds_parts = algorithm->data[1] != 0 && out.type == CUDA_R_16BF;
  const LtLayout& left = Behind<LtLayout>(a_layout);
  const auto depth = static_cast<int64_t>(operation_a == CUBLAS_OP_T ? left.rows : left.columns);
  const LtMatrix aux(aux_data, out.type, note.One<int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD));
  const LtMatrix biases(bias, out.type, 0);
  for (int32_t batch = 0; batch < out.One<int32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
       ++batch) {
    const LtMatrix matrix_a(a, left, batch, operation_a);
    const LtMatrix matrix_b(b, Behind<LtLayout>(b_layout), batch, operation_b);
    const LtMatrix matrix_c(c, Behind<LtLayout>(c_layout), batch);
    const LtMatrix matrix_d(d, out, batch);
    for (int64_t column = 0; column < static_cast<int64_t>(out.columns); ++column) {
      double gradient = 0;
      for (int64_t k = 0; k < depth; ++k) gradient += matrix_b.Get(k, column);
      if (epilogue == CUBLASLT_EPILOGUE_BGRADB) biases.Set(column, 0, gradient);
      for (int64_t row = 0; row < static_cast<int64_t>(out.rows); ++row) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          if (rounds_parts && k == depth / 2) sum = AsBfloat16(sum);
          sum += matrix_a.Get(row, k) * matrix_b.Get(k, column);
        }
        sum *= *static_cast<const float*>(alpha);
        const float scale = *static_cast<const float*>(beta);
        if (scale != 0) sum += scale * matrix_c.Get(row, column);
        const double plus = ReadsBias(epilogue) ? biases.Get(row, 0) : 0;
        matrix_d.Set(row, column, WithEpilogue(epilogue, sum, plus, aux, row, column));
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"

// The parts of the device beside its kernels, on the host. They are the runtime's calls that
// cuda_on_host_runtime lacks, and the libraries' products and convolutions, term by term, in
// doubles. Fused attention is that of cuda_cudnn_on_host.

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "worker/engine/device/cuda/kernels/cuda_types.h"
#include "worker/engine/device/cuda/libraries/cuda_gemm.h"
#include "worker/engine/device/cuda/libraries/cuda_gemm_shape.h"
#include "worker/engine/device/cuda/network/cuda_network_convolution.h"
#include "worker/engine/device/cuda/plans/cuda_plan_tuning.h"
#include "worker/engine/device/cuda/runtime/cuda_graph.h"
#include "worker/engine/device/cuda/testing/cuda_convolution_terms.h"
#include "worker/engine/device/cuda/testing/cuda_on_host_capture.h"
#include "worker/engine/device/cuda/testing/cuda_on_host_memory.h"
#include "worker/engine/device/cuda/testing/cuda_on_host_tuning.h"

namespace {

std::atomic<int64_t> free_memory = dp::engine::cuda::on_host::kFreeMemory;
std::atomic<bool> refuse_pinned_memory = false;

}  // namespace

namespace dp::engine::cuda::on_host {

void SetFreeMemory(int64_t bytes) { free_memory = bytes; }
void RefusePinnedMemory(bool refuse) { refuse_pinned_memory = refuse; }

}  // namespace dp::engine::cuda::on_host

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = static_cast<size_t>(free_memory);
  return cudaSuccess;
}
// No clock: whatever lies between two events takes half a millisecond.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 0.5f;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  *memory = refuse_pinned_memory ? nullptr : std::malloc(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t rows, cudaMemcpyKind, cudaStream_t) {
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(static_cast<char*>(to) + row * to_pitch,
                static_cast<const char*>(from) + row * from_pitch, width);
  }
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete reinterpret_cast<std::function<absl::Status()>*>(graph);
  return cudaSuccess;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t) { return CUBLAS_STATUS_SUCCESS; }
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }

}  // extern "C"

namespace dp::engine::cuda {

namespace {

std::atomic<int> capture_to_refuse = -1;
std::atomic<int> captures_refused = 0;
thread_local int captures_of_thread = 0;
std::atomic<int> plans_tuned = 0;
std::atomic<int> tuned_on_constants = 0;

struct NamedPlans {
  Mutex mu;
  std::vector<std::string> names DP_GUARDED_BY(mu);
};
NamedPlans& Named() {
  static NamedPlans named;
  return named;
}
void NotePlan(const std::string& name) {
  MutexLock lock(Named().mu);
  Named().names.push_back(name);
}

// The nearest float with TF32's 10 bits.
float RoundedToTf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  constexpr uint32_t kDropped = (uint32_t{1} << 13) - 1;
  bits = (bits + kDropped / 2 + ((bits >> 13) & 1)) & ~kDropped;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

// Elements of an array that was given to a plan, of either type; `tf32` rounds floats to TF32.
class Elements {
 public:
  Elements(const void* data, ElementType type, bool tf32 = false)
      : data_(data), type_(type), tf32_(tf32) {}

  double operator[](int64_t i) const {
    if (type_ == ElementType::kFloat32) {
      const float value = static_cast<const float*>(data_)[i];
      return tf32_ ? RoundedToTf32(value) : value;
    }
    return __bfloat162float(static_cast<const bf16*>(data_)[i]);
  }
  void Set(int64_t i, double value) const {
    if (type_ == ElementType::kFloat32) {
      static_cast<float*>(const_cast<void*>(data_))[i] = static_cast<float>(value);
    } else {
      static_cast<bf16*>(const_cast<void*>(data_))[i] = __float2bfloat16(static_cast<float>(value));
    }
  }

 private:
  const void* data_;
  ElementType type_;
  bool tf32_;
};

// Notes that a plan is tuned with this input.
void NoteTuning(const Elements& input, int64_t size) {
  bool constant = true;
  for (int64_t i = 1; i < size; ++i) constant = constant && input[i] == input[0];
  ++plans_tuned;
  tuned_on_constants += constant && size > 1;
}

constexpr double kRoot = 0.7978845608028654;  // sqrt(2 / pi)
double Inner(double x) { return kRoot * (x + 0.044715 * x * x * x); }
double Gelu(double x) { return 0.5 * x * (1 + std::tanh(Inner(x))); }
double GeluSlope(double x) {
  const double t = std::tanh(Inner(x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRoot * (1 + 3 * 0.044715 * x * x);
}

// The element at row `m`, column `n` after the epilogue.
double Finished(const GemmShape& shape, const GemmOperands& operands, int64_t m, int64_t n,
                double product) {
  const Elements bias(operands.bias, shape.out), aux(operands.aux, shape.out);
  const int64_t at = m * shape.n + n;
  switch (shape.epilogue) {
    case Epilogue::kBias:
      return product + bias[n];
    case Epilogue::kBiasRelu:  // a NaN is the first argument, and stays
      return std::max(product + bias[n], 0.0);
    case Epilogue::kBiasGeluAux:
      aux.Set(at, product + bias[n]);
      return Gelu(aux[at]);
    case Epilogue::kGeluGradient:
      return product * GeluSlope(aux[at]);
    default:
      return product;
  }
}

struct ConvolutionOnHost {
  ConvolutionShape s;
  ConvolutionPass pass;
  ConvolutionOperands o;

  void operator()() const {
    const int64_t outs = s.batch * s.out_height() * s.out_width() * s.out;
    const int64_t ins = s.batch * s.height * s.width * s.in;
    const int64_t weights = s.out * s.places() * s.group_in();
    const Elements in(o.in, s.type, s.tf32), weight(o.weight, s.type, s.tf32),
        out(o.out, s.type, s.tf32);
    std::vector<double> sums(pass == ConvolutionPass::kForward        ? outs
                             : pass == ConvolutionPass::kBackwardData ? ins
                                                                      : weights);
    ForEachConvolutionTerm(s, [&](int64_t i, int64_t w, int64_t u) {
      if (pass == ConvolutionPass::kForward) sums[u] += in[i] * weight[w];
      if (pass == ConvolutionPass::kBackwardData) sums[i] += out[u] * weight[w];
      if (pass == ConvolutionPass::kBackwardFilter) sums[w] += in[i] * out[u];
    });
    const Elements to = pass == ConvolutionPass::kForward        ? out
                        : pass == ConvolutionPass::kBackwardData ? in
                                                                 : weight;
    const Elements bias(o.bias, s.type);
    for (size_t i = 0; i < sums.size(); ++i) {
      if (pass == ConvolutionPass::kForward && s.bias) sums[i] += bias[i % s.out];
      if (pass == ConvolutionPass::kForward && s.relu) sums[i] = std::max(sums[i], 0.0);
      to.Set(i, sums[i]);
    }
  }
};

}  // namespace

absl::StatusOr<Libraries> Libraries::Open() {
  Libraries libraries;
  libraries.sms_ = 132;  // an H100's
  return libraries;
}

GemmPlan::GemmPlan(const Planning&, const GemmShape& shape) : shape_(shape) {}

absl::StatusOr<GemmPlan> GemmPlan::Make(const Planning& planning, const GemmShape& shape,
                                        const GemmOperands& scratch) {
  const std::string why_not = WhyNot(shape);
  if (!why_not.empty()) return absl::UnimplementedError(why_not);
  GemmPlan plan(planning, shape);
  NotePlan(Describe(shape));
  NoteTuning(Elements(scratch.a, shape.in), shape.m * shape.k);
  // Like tuning, overwrites the arrays that Run overwrites.
  const absl::Status ran = plan.Run(planning.stream, scratch);
  if (!ran.ok()) return ran;
  return plan;
}

absl::Status GemmPlan::Run(cudaStream_t, const GemmOperands& operands, float alpha) {
  const GemmShape& s = shape_;
  DP_CHECK((operands.bias != nullptr) == UsesBias(s.epilogue));
  DP_CHECK((operands.aux != nullptr) == UsesAux(s.epilogue));
  DP_CHECK(s.batch == 1);
  const Elements a(operands.a, s.in, s.tf32), b(operands.b, s.in, s.tf32), out(operands.out, s.out);
  for (int64_t m = 0; m < s.m; ++m) {
    double sum_of_a = 0;
    for (int64_t k = 0; k < s.k; ++k) sum_of_a += a[s.transpose_a ? k * s.m + m : m * s.k + k];
    if (s.epilogue == Epilogue::kBiasGradient) Elements(operands.bias, s.out).Set(m, sum_of_a);
    for (int64_t n = 0; n < s.n; ++n) {
      double product = 0;
      for (int64_t k = 0; k < s.k; ++k) {
        product += a[s.transpose_a ? k * s.m + m : m * s.k + k] *
                   b[s.transpose_b ? n * s.k + k : k * s.n + n];
      }
      out.Set(m * s.n + n, Finished(s, operands, m, n, alpha * product));
    }
  }
  return absl::OkStatus();
}

MadeOperation MakeConvolutionPass(OperationParts&, const ConvolutionShape& shape,
                                  ConvolutionPass pass, const ConvolutionOperands& operands) {
  const bool by_output = pass == ConvolutionPass::kBackwardData;
  NoteTuning(Elements(by_output ? operands.out : operands.in, shape.type),
             by_output ? shape.batch * shape.out_height() * shape.out_width() * shape.out
                       : shape.batch * shape.height * shape.width * shape.in);
  const ConvolutionOnHost run = {shape, pass, operands};
  run();  // as tuning does
  return MakeOperation([run](cudaStream_t, Mode) {
    run();
    return absl::OkStatus();
  });
}

// No clock decides. The length of the plan's name picks the candidate, so that tests try each.
absl::Status BuildBest(const Planning&, const TuningTask& task) {
  DP_CHECK(!task.candidates.empty());
  NotePlan(task.plan);
  const absl::Status built =
      task.build(static_cast<int>(task.plan.size() % task.candidates.size()));
  return built.ok() ? task.run() : built;
}

namespace on_host {

void RefuseCapture(int number) { capture_to_refuse = number; }
int CapturesRefused() { return captures_refused; }
TunedPlans Tuned() { return {plans_tuned, tuned_on_constants}; }
std::vector<std::string> PlanNames() {
  MutexLock lock(Named().mu);
  return Named().names;
}

}  // namespace on_host

// A graph is the function that queues its work; a launch calls the function. A captured piece
// queues the same work in every call, and that work reads its changing input from the device's
// memory.
absl::StatusOr<GraphExec> CaptureGraph(cudaStream_t, const std::function<absl::Status()>& enqueue) {
  if (captures_of_thread++ == capture_to_refuse) {
    ++captures_refused;
    return absl::InternalError("a test refuses this capture");
  }
  GraphExec graph;
  graph.exec_.reset(reinterpret_cast<cudaGraphExec_t>(new std::function<absl::Status()>(enqueue)));
  graph.nodes_ = 1;
  return graph;
}
absl::Status GraphExec::Launch(cudaStream_t) const {
  return (*reinterpret_cast<const std::function<absl::Status()>*>(exec_.get()))();
}

}  // namespace dp::engine::cuda

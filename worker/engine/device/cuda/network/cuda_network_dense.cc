// Linear layers, functions of each element, sums and dropout.

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/device/cuda/kernels/cuda_column_sums.h"
#include "worker/engine/device/cuda/kernels/cuda_elementwise.h"
#include "worker/engine/device/cuda/network/cuda_network_gemm.h"
#include "worker/engine/device/cuda/network/cuda_network_operation.h"
#include "worker/engine/device/cuda/plans/cuda_plan_tuning.h"
#include "worker/engine/device/cuda/random/cuda_dropout.h"

namespace dp::engine::cuda {
namespace {

Epilogue EpilogueOf(const op::Linear& o) {
  if (o.bias == kNone) return Epilogue::kNone;
  switch (o.function) {
    case Function::kRelu:
      return Epilogue::kBiasRelu;
    case Function::kGelu:
      return Epilogue::kBiasGeluAux;
    default:
      return Epilogue::kBias;
  }
}

// The work that a product leaves undone: the bias, and the function from `from` to `to`.
template <typename T>
struct LinearRest {
  Function function;
  const float* bias;  // null if the product added it, or if there is none
  Matrix shape;
  T* from;
  T* to;

  cudaError_t operator()(cudaStream_t stream) const {
    const bool relu = function == Function::kRelu;
    if (bias != nullptr) {
      const cudaError_t added = AddBias(stream, bias, shape, relu, from);
      if (relu || added != cudaSuccess) return added;
    }
    if (function == Function::kNone) return cudaSuccess;
    return FunctionForward<T>(stream, function, from, shape.size(), to);
  }
};

MadeOperation OfGemm(const absl::StatusOr<BoundGemm>& gemm) {
  DP_RETURN_IF_ERROR(gemm.status());
  return MakeOperation(
      [gemm = *gemm](cudaStream_t stream, Mode) mutable { return gemm.Run(stream); });
}

// A product, then `rest`, a function (cudaStream_t) -> cudaError_t.
template <typename Rest>
MadeOperation OfGemmAnd(const absl::StatusOr<BoundGemm>& gemm, Rest rest) {
  DP_RETURN_IF_ERROR(gemm.status());
  return MakeOperation([gemm = *gemm, rest](cudaStream_t stream, Mode) mutable -> absl::Status {
    DP_RETURN_IF_ERROR(gemm.Run(stream));
    DP_CUDA_RETURN_IF_ERROR(rest(stream));
    return absl::OkStatus();
  });
}

// Takes a product with its epilogue, or a product followed by a kernel, whichever is faster. An
// epilogue saves a pass over memory. But the library supports it in few of its algorithms, which
// may be poor ones for a shape. `fused` may be Unimplemented.
MadeOperation Faster(const Planning& planning, const GemmShape& shape, MadeOperation fused,
                     MadeOperation apart) {
  if (absl::IsUnimplemented(fused.status())) return apart;
  DP_RETURN_IF_ERROR(fused.status());
  DP_RETURN_IF_ERROR(apart.status());
  CudaOperation* const ways[] = {fused->get(), apart->get()};
  int chosen = 0;
  const auto build = [&](int i) {
    chosen = i;
    return absl::OkStatus();
  };
  const auto run = [&] { return ways[chosen]->Run(planning.stream, Mode::kTrain); };
  DP_RETURN_IF_ERROR(BuildBest(planning, {.plan = absl::StrCat(Describe(shape), " fused or apart"),
                                          .candidates = {"fused", "apart"},
                                          .build = build,
                                          .run = run}));
  return chosen == 0 ? std::move(fused) : std::move(apart);
}

// A linear layer as a product with at most a bias, followed by its function.
template <typename T>
MadeOperation LinearApart(OperationParts& parts, const op::Linear& o, const GemmShape& shape,
                          GemmOperands operands) {
  // The product goes where the function reads.
  T* const product = parts.array<T>(o.aux == kNone ? o.out : o.aux);
  const bool with_bias = o.bias != kNone && o.function == Function::kGelu;
  operands.out = product;
  operands.aux = nullptr;
  if (!with_bias) operands.bias = nullptr;
  DP_ASSIGN_OR_RETURN(
      const BoundGemm gemm,
      BoundGemm::MakeWith(with_bias ? Epilogue::kBias : Epilogue::kNone, parts, shape, operands));
  const LinearRest<T> rest = {.function = o.function,
                              .bias = gemm.has_epilogue() ? nullptr : parts.memory.value(o.bias),
                              .shape = {o.size.rows, o.size.out},
                              .from = product,
                              .to = parts.array<T>(o.out)};
  return OfGemmAnd<LinearRest<T>>(gemm, rest);
}

}  // namespace

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Linear& o) const {
  const GemmShape shape = {.m = o.size.rows,
                           .n = o.size.out,
                           .k = o.size.in,
                           .transpose_b = true,
                           .in = ElementOf<T>(),
                           .out = ElementOf<T>(),
                           .tf32 = tf32()};
  GemmShape whole = shape;
  whole.epilogue = EpilogueOf(o);
  const bool gelu = whole.epilogue == Epilogue::kBiasGeluAux;
  const GemmOperands operands = {.a = array<T>(o.in),
                                 .b = parts.memory.weight<T>(o.weight),
                                 .out = array<T>(o.out),
                                 .bias = parts.memory.weight<T>(o.bias),
                                 .aux = gelu ? array<T>(o.aux) : nullptr};
  MadeOperation fused = absl::UnimplementedError("a function without a bias");
  if (o.bias != kNone || o.function == Function::kNone) {
    fused = OfGemm(BoundGemm::Make(parts, whole, operands));
  }
  if (!gelu && !absl::IsUnimplemented(fused.status())) return fused;
  return Faster(parts.planning, whole, std::move(fused), LinearApart<T>(parts, o, shape, operands));
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::LinearWeightGradient& o) const {
  const GemmShape shape = {.m = o.size.out,
                           .n = o.size.in,
                           .k = o.size.rows,
                           .transpose_a = true,
                           .in = ElementOf<T>(),
                           .out = ElementType::kFloat32,
                           .tf32 = tf32(),
                           .sms = backward_sms()};
  float* const gradient = parts.memory.gradient(o.weight);
  float* const product = o.padded == kNone ? gradient : array<float>(o.padded);
  const GemmOperands operands = {
      .a = array<T>(o.out_gradient), .b = array<T>(o.in), .out = product};
  const int64_t bytes =
      parts.program.layout.parameters[o.weight].size * static_cast<int64_t>(sizeof(float));
  const auto copy = [=](cudaStream_t stream) {
    if (product == gradient) return cudaSuccess;
    return cudaMemcpyAsync(gradient, product, bytes, cudaMemcpyDeviceToDevice, stream);
  };
  if (o.bias == kNone) return OfGemmAnd(BoundGemm::Make(parts, shape, operands), copy);
  float* const sums = parts.memory.gradient(o.bias);
  const auto copy_and_sum = [=, out_gradient = array<T>(o.out_gradient), scratch = scratch(),
                             matrix = Matrix{o.size.rows, o.size.out}](cudaStream_t stream) {
    const cudaError_t copied = copy(stream);
    if (copied != cudaSuccess) return copied;
    return ColumnSums<T>(stream, out_gradient, matrix, scratch, sums);
  };
  GemmShape whole = shape;
  whole.epilogue = Epilogue::kBiasGradient;
  GemmOperands with_bias = operands;
  with_bias.bias = sums;
  return Faster(parts.planning, whole, OfGemmAnd(BoundGemm::Make(parts, whole, with_bias), copy),
                OfGemmAnd(BoundGemm::Make(parts, shape, operands), copy_and_sum));
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::LinearInputGradient& o) const {
  const GemmShape shape = {.m = o.size.rows,
                           .n = o.size.in,
                           .k = o.size.out,
                           .in = ElementOf<T>(),
                           .out = ElementOf<T>(),
                           .tf32 = tf32(),
                           .sms = backward_sms()};
  T* const gradient = array<T>(o.in_gradient);
  T* const gelu = array<T>(o.gelu);
  const GemmOperands operands = {
      .a = array<T>(o.out_gradient), .b = parts.memory.weight<T>(o.weight), .out = gradient};
  const absl::StatusOr<BoundGemm> plain = BoundGemm::Make(parts, shape, operands);
  if (gelu == nullptr) return OfGemm(plain);
  GemmShape whole = shape;
  whole.epilogue = Epilogue::kGeluGradient;
  GemmOperands with_gelu = operands;
  with_gelu.aux = gelu;
  const int64_t size = o.size.rows * o.size.in;
  return Faster(parts.planning, whole, OfGemm(BoundGemm::Make(parts, whole, with_gelu)),
                OfGemmAnd(plain, [=](cudaStream_t stream) {
                  return FunctionBackward<T>(stream, Function::kGelu, gelu, gradient, size,
                                             gradient);
                }));
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Apply& o) const {
  return MakeLaunch([o, in = array<T>(o.in), out = array<T>(o.out)](cudaStream_t stream) {
    return FunctionForward<T>(stream, o.function, in, o.size, out);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::ApplyGradient& o) const {
  return MakeLaunch([o, saved = array<T>(o.saved), gradient = array<T>(o.out_gradient),
                     out = array<T>(o.in_gradient)](cudaStream_t stream) {
    return FunctionBackward<T>(stream, o.function, saved, gradient, o.size, out);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Sum& o) const {
  return MakeLaunch([size = o.size, a = array<T>(o.a), b = array<T>(o.b), out = array<T>(o.out)](
                        cudaStream_t stream) { return Add<T>(stream, a, b, size, out); });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::BiasGradient& o) const {
  return MakeLaunch([relu_out = array<T>(o.relu_out), gradient = array<T>(o.out_gradient),
                     shape = Matrix{o.rows, o.columns}, places = o.places, scratch = scratch(),
                     sums = parts.memory.gradient(o.bias)](cudaStream_t stream) {
    if (places > 1) {
      return ReluBackwardChannelSums<T>(stream, relu_out, shape, places, gradient, sums);
    }
    if (relu_out == nullptr) {
      return ColumnSums<T>(stream, gradient, shape, scratch, sums);
    }
    return ReluBackwardColumnSums<T>(stream, relu_out, shape, scratch, gradient, sums);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Drop& o) const {
  const DropoutShape shape = {o.shape.count, o.shape.rows, o.shape.columns};
  return MakeOperation([shape, options = DropoutOptions{o.p, o.seed}, in = array<T>(o.in),
                        out = array<T>(o.out), samples = array<int64_t>(parts.program.samples),
                        step = parts.memory.step()](cudaStream_t stream,
                                                    Mode mode) -> absl::Status {
    if (mode == Mode::kTrain) {
      DP_CUDA_RETURN_IF_ERROR(Dropout<T>(stream, in, samples, shape, options, step, out));
    } else {
      const size_t bytes = sizeof(T) * static_cast<size_t>(shape.samples * shape.sample_size());
      DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice, stream));
    }
    return absl::OkStatus();
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Convert& o) const {
  return MakeLaunch([size = o.size, to_float = o.to_float, in = array<void>(o.in),
                     out = array<void>(o.out)](cudaStream_t stream) {
    return to_float ? Cast<T, float>(stream, static_cast<T*>(in), size, static_cast<float*>(out))
                    : Cast<float, T>(stream, static_cast<float*>(in), size, static_cast<T*>(out));
  });
}

template MadeOperation OperationMaker<float>::operator()(const op::Linear&) const;
template MadeOperation OperationMaker<float>::operator()(const op::LinearWeightGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::LinearInputGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::Apply&) const;
template MadeOperation OperationMaker<float>::operator()(const op::ApplyGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::Sum&) const;
template MadeOperation OperationMaker<float>::operator()(const op::BiasGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::Drop&) const;
template MadeOperation OperationMaker<float>::operator()(const op::Convert&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Linear&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::LinearWeightGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::LinearInputGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Apply&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::ApplyGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Sum&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::BiasGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Drop&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Convert&) const;

}  // namespace dp::engine::cuda

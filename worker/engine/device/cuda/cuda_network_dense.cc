// Linear layers, functions of each element, sums and dropout.

#include "worker/engine/device/cuda/cuda_column_sums.h"
#include "worker/engine/device/cuda/cuda_dropout.h"
#include "worker/engine/device/cuda/cuda_elementwise.h"
#include "worker/engine/device/cuda/cuda_network_gemm.h"
#include "worker/engine/device/cuda/cuda_network_operation.h"

#include "base/status.h"

namespace dp::engine::cuda {
namespace {

Epilogue EpilogueOf(const op::Linear& o) {
  if (o.bias == kNone) return Epilogue::kNone;
  switch (o.function) {
    case Function::kRelu:
      return Epilogue::kBiasRelu;
    case Function::kGelu:
      return Epilogue::kBiasGeluAux;
    case Function::kNone:
      break;
  }
  return Epilogue::kBias;
}

// What the product has left undone: bias, and function of `from` to `to`.
template <typename T>
struct LinearRest {
  Function function;
  const float* bias;  // null: done, or none
  Matrix shape;
  T* from;
  T* to;

  cudaError_t operator()(cudaStream_t stream) const {
    const bool relu = function == Function::kRelu;
    if (bias != nullptr) {
      const cudaError_t added = AddBias(stream, bias, shape, relu, from);
      if (added != cudaSuccess) return added;
    } else if (relu) {
      return ReluForward<T>(stream, from, shape.size(), to);
    }
    if (function != Function::kGelu) return cudaSuccess;
    return GeluForward<T>(stream, from, shape.size(), to);
  }
};

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
  GemmOperands operands = {.a = array<T>(o.in),
                           .b = parts.memory.weight<T>(o.weight),
                           .out = array<T>(o.out),
                           .bias = parts.memory.weight<T>(o.bias),
                           .aux = array<T>(o.aux)};
  const Epilogue epilogue = EpilogueOf(o);
  if (epilogue != Epilogue::kBiasGeluAux) operands.aux = nullptr;
  DP_ASSIGN_OR_RETURN(BoundGemm gemm, BoundGemm::MakeWith(epilogue, parts, shape, operands));
  if (gemm.has_epilogue() || (o.function == Function::kNone && o.bias == kNone)) {
    return MakeOperation([gemm](cudaStream_t stream, Mode) mutable { return gemm.Run(stream); });
  }
  // The product goes to where the function takes it from.
  T* const product = array<T>(o.aux == kNone ? o.out : o.aux);
  DP_ASSIGN_OR_RETURN(
      gemm, BoundGemm::Make(parts, shape, {.a = operands.a, .b = operands.b, .out = product}));
  const LinearRest<T> rest = {
      o.function, parts.memory.value(o.bias), {o.size.rows, o.size.out}, product, array<T>(o.out)};
  return MakeOperation([gemm, rest](cudaStream_t stream, Mode) mutable -> absl::Status {
    DP_RETURN_IF_ERROR(gemm.Run(stream));
    DP_CUDA_RETURN_IF_ERROR(rest(stream));
    return absl::OkStatus();
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::LinearWeightGradient& o) const {
  const GemmShape shape = {.m = o.size.out,
                           .n = o.size.in,
                           .k = o.size.rows,
                           .transpose_a = true,
                           .in = ElementOf<T>(),
                           .out = ElementType::kFloat32,
                           .tf32 = tf32()};
  float* const gradient = parts.memory.gradient(o.weight);
  float* const product = o.padded == kNone ? gradient : array<float>(o.padded);
  const GemmOperands operands = {.a = array<T>(o.out_gradient),
                                 .b = array<T>(o.in),
                                 .out = product,
                                 .bias = parts.memory.gradient(o.bias)};
  DP_ASSIGN_OR_RETURN(BoundGemm gemm, BoundGemm::MakeWith(o.bias == kNone ? Epilogue::kNone
                                                                          : Epilogue::kBiasGradient,
                                                          parts, shape, operands));
  const int64_t bytes =
      parts.program.layout.parameters[o.weight].size * static_cast<int64_t>(sizeof(float));
  const bool sum_bias = o.bias != kNone && !gemm.has_epilogue();
  return MakeOperation([=, out_gradient = array<T>(o.out_gradient), sums = operands.bias,
                        matrix = Matrix{o.size.rows, o.size.out},
                        scratch = scratch()](cudaStream_t stream, Mode) mutable -> absl::Status {
    DP_RETURN_IF_ERROR(gemm.Run(stream));
    if (product != gradient) {
      DP_CUDA_RETURN_IF_ERROR(
          cudaMemcpyAsync(gradient, product, bytes, cudaMemcpyDeviceToDevice, stream));
    }
    if (!sum_bias) return absl::OkStatus();
    DP_CUDA_RETURN_IF_ERROR(ColumnSums<T>(stream, out_gradient, matrix, /*accumulate=*/false,
                                          scratch, static_cast<float*>(sums)));
    return absl::OkStatus();
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::LinearInputGradient& o) const {
  const GemmShape shape = {.m = o.size.rows,
                           .n = o.size.in,
                           .k = o.size.out,
                           .in = ElementOf<T>(),
                           .out = ElementOf<T>(),
                           .tf32 = tf32()};
  T* const gradient = array<T>(o.in_gradient);
  T* const gelu = array<T>(o.gelu);
  const GemmOperands operands = {.a = array<T>(o.out_gradient),
                                 .b = parts.memory.weight<T>(o.weight),
                                 .out = gradient,
                                 .aux = gelu};
  DP_ASSIGN_OR_RETURN(BoundGemm gemm, BoundGemm::MakeWith(gelu == nullptr ? Epilogue::kNone
                                                                          : Epilogue::kGeluGradient,
                                                          parts, shape, operands));
  const bool apply = gelu != nullptr && !gemm.has_epilogue();
  const int64_t size = o.size.rows * o.size.in;
  return MakeOperation([=](cudaStream_t stream, Mode) mutable -> absl::Status {
    DP_RETURN_IF_ERROR(gemm.Run(stream));
    if (apply) DP_CUDA_RETURN_IF_ERROR(GeluBackward<T>(stream, gelu, gradient, size, gradient));
    return absl::OkStatus();
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Apply& o) const {
  return MakeLaunch([size = o.size, relu = o.function == Function::kRelu, in = array<T>(o.in),
                     out = array<T>(o.out)](cudaStream_t stream) {
    return relu ? ReluForward<T>(stream, in, size, out) : GeluForward<T>(stream, in, size, out);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::ApplyGradient& o) const {
  return MakeLaunch([size = o.size, relu = o.function == Function::kRelu, saved = array<T>(o.saved),
                     gradient = array<T>(o.out_gradient),
                     out = array<T>(o.in_gradient)](cudaStream_t stream) {
    return relu ? ReluBackward<T>(stream, saved, gradient, size, out)
                : GeluBackward<T>(stream, saved, gradient, size, out);
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
                     shape = Matrix{o.rows, o.columns}, scratch = scratch(),
                     sums = parts.memory.gradient(o.bias)](cudaStream_t stream) {
    if (relu_out == nullptr) {
      return ColumnSums<T>(stream, gradient, shape, /*accumulate=*/false, scratch, sums);
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

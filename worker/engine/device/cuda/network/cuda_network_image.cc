// Images: convolutions, pooling, and the order of axes.

#include <memory>
#include <utility>

#include "base/status.h"
#include "worker/engine/device/cuda/images/cuda_mean_pooling.h"
#include "worker/engine/device/cuda/images/cuda_pooling.h"
#include "worker/engine/device/cuda/kernels/cuda_cast.h"
#include "worker/engine/device/cuda/kernels/cuda_elementwise.h"
#include "worker/engine/device/cuda/kernels/cuda_transpose.h"
#include "worker/engine/device/cuda/network/cuda_network_convolution.h"
#include "worker/engine/device/cuda/network/cuda_network_operation.h"

namespace dp::engine::cuda {
namespace {

Matrices MatricesOf(const MatrixRun& run) { return {run.count, run.rows, run.columns}; }

PoolingShape PoolingOf(const Window& w, bool plain) {
  return {.samples = w.samples,
          .channels = w.in,
          .in_rows = static_cast<int>(w.rows),
          .in_columns = static_cast<int>(w.columns),
          .kernel = static_cast<int>(w.kernel),
          .stride = static_cast<int>(w.stride),
          .padding = static_cast<int>(w.padding),
          .plain = plain};
}

template <typename T>
ConvolutionShape ConvolutionOf(const Window& w, bool tf32) {
  return {.batch = w.samples,
          .height = w.rows,
          .width = w.columns,
          .in = w.in,
          .out = w.out,
          .kernel = w.kernel,
          .stride = w.stride,
          .padding = w.padding,
          .type = ElementOf<T>(),
          .tf32 = tf32,
          .groups = w.groups,
          .dilation = w.dilation,
          .one_row = w.one_row};
}

// Those of a mean pooling, and of its gradient.
template <typename Operation>
MeanPoolingShape MeanPoolingOf(const Operation& o) {
  return {o.samples, o.channels, o.rows, o.columns};
}

}  // namespace

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::TakeImages& o) const {
  return MakeLaunch([shape = MatricesOf(o.shape), in = array<float>(parts.program.images),
                     out = array<T>(o.out)](cudaStream_t stream) {
    if (shape.rows > 1) return cuda::Transpose<float, T>(stream, in, shape, out);
    return Cast<float, T>(stream, in, shape.count * shape.columns, out);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::OrderWeight& o) const {
  return MakeLaunch([shape = MatricesOf(o.shape), in = parts.memory.value(o.weight),
                     out = array<T>(o.out)](cudaStream_t stream) {
    return cuda::Transpose<float, T>(stream, in, shape, out);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Transpose& o) const {
  return MakeLaunch([shape = MatricesOf(o.shape), in = array<T>(o.in),
                     out = array<T>(o.out)](cudaStream_t stream) {
    return cuda::Transpose<T, T>(stream, in, shape, out);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Convolve& o) const {
  ConvolutionShape shape = ConvolutionOf<T>(o.window, tf32());
  shape.bias = o.bias != kNone;
  shape.relu = o.relu;
  T* const weight = o.weight == kNone ? parts.memory.weight<T>(o.parameter) : array<T>(o.weight);
  return MakeConvolutionPass(parts, shape, ConvolutionPass::kForward,
                             {.in = array<T>(o.in),
                              .weight = weight,
                              .bias = parts.memory.weight<T>(o.bias),
                              .out = array<T>(o.out)});
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::ConvolutionInputGradient& o) const {
  T* const weight = o.weight == kNone ? parts.memory.weight<T>(o.parameter) : array<T>(o.weight);
  return MakeConvolutionPass(
      parts, ConvolutionOf<T>(o.window, tf32()), ConvolutionPass::kBackwardData,
      {.in = array<T>(o.in_gradient), .weight = weight, .out = array<T>(o.out_gradient)});
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::ConvolutionWeightGradient& o) const {
  float* const gradient = parts.memory.gradient(o.parameter);
  T* const ordered = array<T>(o.ordered);
  const ConvolutionOperands operands = {
      .in = array<T>(o.in),
      .weight = ordered == nullptr ? static_cast<void*>(gradient) : ordered,
      .out = array<T>(o.out_gradient)};
  const Matrices shape = {o.window.out, o.window.places(), o.window.group_in()};
  DP_ASSIGN_OR_RETURN(std::unique_ptr<CudaOperation> pass,
                      MakeConvolutionPass(parts, ConvolutionOf<T>(o.window, tf32()),
                                          ConvolutionPass::kBackwardFilter, operands));
  if (ordered == nullptr) return pass;
  return MakeOperation([=, pass = std::move(pass)](cudaStream_t stream, Mode mode) -> absl::Status {
    DP_RETURN_IF_ERROR(pass->Run(stream, mode));
    const bool moves = shape.rows > 1 && shape.columns > 1;
    DP_CUDA_RETURN_IF_ERROR((
        moves
            ? cuda::Transpose<T, float>(stream, ordered, shape, gradient)
            : Cast<T, float>(stream, ordered, shape.count * shape.rows * shape.columns, gradient)));
    return absl::OkStatus();
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Pool& o) const {
  return MakeLaunch([shape = PoolingOf(o.window, o.plain), in = array<T>(o.in),
                     out = array<T>(o.out),
                     places = array<uint8_t>(o.places)](cudaStream_t stream) {
    return MaxPoolForward<T>(stream, in, shape, out, places);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::PoolGradient& o) const {
  return MakeLaunch([shape = PoolingOf(o.window, o.plain), gradient = array<T>(o.out_gradient),
                     places = array<uint8_t>(o.places), relu_out = array<T>(o.relu_out),
                     in_gradient = array<T>(o.in_gradient)](cudaStream_t stream) {
    return MaxPoolBackward<T>(stream, gradient, places, relu_out, shape, in_gradient);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::MeanPool& o) const {
  return MakeLaunch(
      [shape = MeanPoolingOf(o), in = array<T>(o.in), out = array<T>(o.out)](cudaStream_t stream) {
        return MeanPoolForward<T>(stream, in, shape, out);
      });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::MeanPoolGradient& o) const {
  return MakeLaunch([shape = MeanPoolingOf(o), gradient = array<T>(o.out_gradient),
                     in_gradient = array<T>(o.in_gradient)](cudaStream_t stream) {
    return MeanPoolBackward<T>(stream, gradient, shape, in_gradient);
  });
}

template MadeOperation OperationMaker<float>::operator()(const op::TakeImages&) const;
template MadeOperation OperationMaker<float>::operator()(const op::OrderWeight&) const;
template MadeOperation OperationMaker<float>::operator()(const op::Transpose&) const;
template MadeOperation OperationMaker<float>::operator()(const op::Convolve&) const;
template MadeOperation OperationMaker<float>::operator()(const op::ConvolutionInputGradient&) const;
template MadeOperation OperationMaker<float>::operator()(
    const op::ConvolutionWeightGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::Pool&) const;
template MadeOperation OperationMaker<float>::operator()(const op::PoolGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::MeanPool&) const;
template MadeOperation OperationMaker<float>::operator()(const op::MeanPoolGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::TakeImages&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::OrderWeight&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Transpose&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Convolve&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::ConvolutionInputGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::ConvolutionWeightGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Pool&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::PoolGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::MeanPool&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::MeanPoolGradient&) const;

}  // namespace dp::engine::cuda

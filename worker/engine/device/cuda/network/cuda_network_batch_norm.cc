// Batch norms, and what they measure.

#include "base/status.h"
#include "worker/engine/device/cuda/images/cuda_channel_norm.h"
#include "worker/engine/device/cuda/network/cuda_network_operation.h"
#include "worker/engine/device/cuda/network/cuda_network_shapes.h"

namespace dp::engine::cuda {

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::BatchNorm& o) const {
  const ChannelMoments moments = {array<float>(o.mean), array<float>(o.deviation),
                                  array<float>(o.variance)};
  const ChannelNormParameters parameters = {parts.memory.value(o.weight),
                                            parts.memory.value(o.bias), o.relu};
  return MakeOperation([=, shape = ShapeOf(o.shape), epsilon = o.epsilon, in = array<T>(o.in),
                        out = array<T>(o.out), scratch = scratch(), step = parts.memory.step(),
                        running_mean = parts.memory.value(o.running_mean),
                        running_variance = parts.memory.value(o.running_variance)](
                           cudaStream_t stream, Mode mode) -> absl::Status {
    const bool trains = mode == Mode::kTrain;
    if (trains) {
      DP_CUDA_RETURN_IF_ERROR(
          MeasureChannels<T>(stream, in, shape, step, epsilon, scratch, moments));
    } else {
      DP_CUDA_RETURN_IF_ERROR(TakeRunningMoments(stream, running_mean, running_variance,
                                                 shape.channels, epsilon, moments));
    }
    DP_CUDA_RETURN_IF_ERROR(ChannelNormForward<T>(stream, in, parameters, moments, shape,
                                                  trains ? step : nullptr, out));
    return absl::OkStatus();
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::BatchNormGradient& o) const {
  const ChannelMoments moments = {array<float>(o.mean), array<float>(o.deviation), nullptr};
  const ChannelNormGradients<T> gradients = {
      array<T>(o.in_gradient), parts.memory.gradient(o.weight), parts.memory.gradient(o.bias)};
  return MakeLaunch([=, shape = ShapeOf(o.shape), in = array<T>(o.in),
                     relu_out = array<T>(o.relu_out), gradient = array<T>(o.out_gradient),
                     weight = parts.memory.value(o.weight), step = parts.memory.step(),
                     scratch = scratch()](cudaStream_t stream) {
    return ChannelNormBackward<T>(stream, in, relu_out, gradient, weight, moments, shape, step,
                                  scratch, gradients);
  });
}

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::PassStatistics& o) const {
  const ChannelMoments moments = {array<float>(o.mean), nullptr, array<float>(o.variance)};
  return MakeLaunch([=, channels = o.channels, rows = o.rows_per_sample, step = parts.memory.step(),
                     mean = parts.memory.gradient(o.running_mean),
                     variance = parts.memory.gradient(o.running_variance)](cudaStream_t stream) {
    return PassMoments(stream, moments, channels, step, rows, mean, variance);
  });
}

template MadeOperation OperationMaker<float>::operator()(const op::BatchNorm&) const;
template MadeOperation OperationMaker<float>::operator()(const op::BatchNormGradient&) const;
template MadeOperation OperationMaker<float>::operator()(const op::PassStatistics&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::BatchNorm&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::BatchNormGradient&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::PassStatistics&) const;

}  // namespace dp::engine::cuda

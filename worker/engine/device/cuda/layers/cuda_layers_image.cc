#include "worker/engine/device/cuda/layers/cuda_layers_planner.h"

#include <algorithm>

#include "base/check.h"

namespace dp::engine::cuda {
namespace {

// The window of a convolution over an array of these rows and columns.
template <typename Convolution>
Window WindowOf(const Convolution& conv, int64_t samples, int64_t rows, int64_t columns) {
  return {.samples = samples,
          .rows = rows,
          .columns = columns,
          .in = conv.in,
          .out = conv.out,
          .kernel = conv.kernel,
          .stride = conv.stride,
          .padding = conv.padding,
          .dilation = conv.dilation,
          .groups = conv.groups};
}

}  // namespace

size_t LayerPlanner::PlanKind(const model::Conv2d& conv, size_t i, ValueId in) {
  const bool relu = Chained(i) && IsKind<model::Relu>(i + 1);
  const size_t last = relu ? i + 1 : i;
  // Pooling then does the backward half of the ReLU, on the smaller side.
  const bool pooled = relu && Chained(last) && IsKind<model::MaxPool2d>(last + 1);
  const model::Shape& from = layers_[i].in;
  const Window window = WindowOf(conv, batch(), from[1], from[2]);
  Give(last, PlanConvolution(window, i, in, layers_[last].out, {relu, relu && !pooled}));
  return last - i + 1;
}

size_t LayerPlanner::PlanKind(const model::Conv1d& conv, size_t i, ValueId in) {
  const bool relu = Chained(i) && IsKind<model::Relu>(i + 1);
  const size_t last = relu ? i + 1 : i;
  const model::Shape& shape = layers_[last].out;
  Window window = WindowOf(conv, batch(), 1, layers_[i].in[1]);
  window.one_row = true;
  const ValueId out =
      PlanConvolution(window, i, AsOneRow(in), {shape[0], 1, shape[1]}, {relu, relu});
  Give(last, InPlainOrder(out, shape));
  return last - i + 1;
}

LayerPlanner::ValueId LayerPlanner::PlanConvolution(const Window& window, size_t i, ValueId in,
                                                    const model::Shape& shape,
                                                    ConvolutionRelu relu) {
  const int weight = ParameterOf(layers_[i].name + ".weight");
  const int bias = ParameterOf(layers_[i].name + ".bias");
  const bool ordered = window.group_in() > 1 && window.places() > 1;
  const ArrayId weight_array = ordered ? NewActivation(window.weights()) : kNone;
  if (ordered) {
    Emit(op::OrderWeight{weight, {window.out, window.group_in(), window.places()}, weight_array},
         {weight_array});
  }
  const ArrayId from = values_[in].array;
  const ArrayId out = NewActivation(batch() * model::ElementCount(shape));
  const ValueId given = NewValue(out, shape, true);
  Emit(op::Convolve{window, from, weight_array, weight, bias, relu.forward, out},
       {from, weight_array, out});
  backward_.push_back([=, this] {
    const int64_t rows = SizeOf(given) / window.out;
    ArrayId gradient = TakeGradient(given);
    if (relu.backward) {
      gradient = ReluBiasGradient(out, gradient, rows, window.out, bias);
    } else if (bias != kNone && !values_[given].bias_summed) {
      Emit(op::BiasGradient{kNone, gradient, rows, window.out, bias}, {gradient}, {bias});
    }
    const ArrayId in_order = ordered || bfloat16() ? NewActivation(window.weights()) : kNone;
    Emit(op::ConvolutionWeightGradient{window, from, gradient, in_order, weight},
         {from, gradient, in_order}, {weight});
    if (!values_[in].needs_gradient) return;
    const ArrayId in_gradient = NewActivation(SizeOf(in));
    Emit(op::ConvolutionInputGradient{window, gradient, weight_array, weight, in_gradient},
         {gradient, weight_array, in_gradient});
    AddGradient(in, in_gradient);
  });
  return given;
}

size_t LayerPlanner::PlanKind(const model::BatchNorm& norm, size_t i, ValueId in) {
  const bool relu = Chained(i) && IsKind<model::Relu>(i + 1);
  const size_t last = relu ? i + 1 : i;
  const model::Shape& shape = layers_[i].in;
  const std::string& name = layers_[i].name;
  const int64_t channels = shape.front(), size = SizeOf(in);
  const ChannelRows rows = {batch(), size / batch() / channels, channels};
  const ValueId from = shape.size() == 3 ? in : AsOneRow(in);
  const op::BatchNorm forward = {.shape = rows,
                                 .epsilon = norm.epsilon,
                                 .in = values_[from].array,
                                 .weight = ParameterOf(name + ".weight"),
                                 .bias = ParameterOf(name + ".bias"),
                                 .running_mean = ParameterOf(name + ".running_mean"),
                                 .running_variance = ParameterOf(name + ".running_var"),
                                 .relu = relu,
                                 .mean = NewArray(Stored::kFloat, channels),
                                 .deviation = NewArray(Stored::kFloat, channels),
                                 .variance = NewArray(Stored::kFloat, channels),
                                 .out = NewActivation(size)};
  const ValueId given = NewValue(forward.out, values_[from].shape, true);
  Emit(forward, {forward.in, forward.mean, forward.deviation, forward.variance, forward.out});
  backward_.push_back([=, this] {
    const op::BatchNormGradient backward = {
        .shape = rows,
        .in = forward.in,
        .relu_out = relu ? forward.out : kNone,
        .out_gradient = TakeGradient(given),
        .weight = forward.weight,
        .bias = forward.bias,
        .mean = forward.mean,
        .deviation = forward.deviation,
        .in_gradient = values_[from].needs_gradient ? NewActivation(size) : kNone};
    Emit(backward,
         {backward.in, backward.relu_out, backward.out_gradient, backward.mean, backward.deviation,
          backward.in_gradient},
         {backward.bias, backward.weight});
    if (backward.in_gradient != kNone) AddGradient(from, backward.in_gradient);
    statistics_.push_back({.mean = forward.mean,
                           .variance = forward.variance,
                           .running_mean = forward.running_mean,
                           .running_variance = forward.running_variance,
                           .channels = channels});
  });
  Give(last, shape.size() == 3 ? given : InPlainOrder(given, layers_[last].out));
  return last - i + 1;
}

size_t LayerPlanner::PlanKind(const model::AvgPool2d& pool, size_t i, ValueId in) {
  const auto axis = [&](size_t k) {
    return model::PoolAxis{.in = layers_[i].in[k],
                           .out = layers_[i].out[k],
                           .kernel = pool.kernel,
                           .stride = pool.stride,
                           .padding = pool.padding};
  };
  PlanMeanPool(axis(1), axis(2), i, in);
  return 1;
}

size_t LayerPlanner::PlanKind(const model::AdaptiveAvgPool2d&, size_t i, ValueId in) {
  const auto axis = [&](size_t k) {
    return model::PoolAxis{.in = layers_[i].in[k], .out = layers_[i].out[k]};
  };
  PlanMeanPool(axis(1), axis(2), i, in);
  return 1;
}

void LayerPlanner::PlanMeanPool(const model::PoolAxis& rows, const model::PoolAxis& columns,
                                size_t i, ValueId in) {
  const int64_t channels = layers_[i].in[0];
  const ArrayId from = values_[in].array;
  const ArrayId out = NewActivation(batch() * model::ElementCount(layers_[i].out));
  const ValueId given = NewValue(out, layers_[i].out, values_[in].needs_gradient);
  Give(i, given);
  Emit(op::MeanPool{batch(), channels, rows, columns, from, out}, {from, out});
  backward_.push_back([=, this] {
    if (!values_[in].needs_gradient) return;
    const ArrayId gradient = TakeGradient(given);
    const ArrayId in_gradient = NewActivation(SizeOf(in));
    Emit(op::MeanPoolGradient{batch(), channels, rows, columns, gradient, in_gradient},
         {gradient, in_gradient});
    AddGradient(in, in_gradient);
  });
}

size_t LayerPlanner::PlanKind(const model::MaxPool2d& pool, size_t i, ValueId in) {
  const model::Shape& shape = layers_[i].in;
  const Window window = {.samples = batch(),
                         .rows = shape[1],
                         .columns = shape[2],
                         .in = shape[0],
                         .out = shape[0],
                         .kernel = pool.kernel,
                         .stride = pool.stride,
                         .padding = pool.padding};
  const bool relu = FollowsConvolutionAndRelu(i);
  const ArrayId from = values_[in].array;
  const ArrayId out = NewActivation(batch() * model::ElementCount(layers_[i].out));
  const ArrayId places = NewArray(Stored::kByte, program_.arrays[out].size);
  const ValueId given = NewValue(out, layers_[i].out, values_[in].needs_gradient);
  const bool plain = values_[given].channels_last() && Chained(i) && IsKind<model::Flatten>(i + 1);
  values_[given].plain = plain;
  Give(i, given);
  Emit(op::Pool{window, from, places, out, plain}, {from, places, out});
  backward_.push_back([=, this] {
    if (!values_[in].needs_gradient) return;
    const ArrayId gradient = TakeGradient(given);
    const ArrayId in_gradient = NewActivation(SizeOf(in));
    const bool passed = relu && PassReluOfPooled(i, given, gradient);
    values_[in].bias_summed = passed;
    const ArrayId relu_out = relu && !passed ? out : kNone;
    Emit(op::PoolGradient{window, gradient, places, relu_out, in_gradient, plain},
         {gradient, places, relu_out, in_gradient});
    AddGradient(in, in_gradient);
  });
  return 1;
}

bool LayerPlanner::FollowsConvolutionAndRelu(size_t i) const {
  return i >= 2 && IsKind<model::Relu>(i - 1) && IsKind<model::Conv2d>(i - 2) && Chained(i - 1) &&
         Chained(i - 2);
}

bool LayerPlanner::PassReluOfPooled(size_t i, ValueId given, ArrayId gradient) {
  const int bias = ParameterOf(layers_[i - 2].name + ".bias");
  if (bias == kNone || !Free(gradient)) return false;
  const Value& value = values_[given];
  const int64_t places = value.plain ? value.places() : 1;
  const int64_t rows = batch() * value.places() / places;
  Emit(op::BiasGradient{value.array, gradient, rows, value.shape[0], bias, places},
       {value.array, gradient}, {bias});
  return true;
}

size_t LayerPlanner::PlanKind(const model::Flatten&, size_t i, ValueId in) {
  Give(i, InPlainOrder(in, layers_[i].out));
  return 1;
}

LayerPlanner::ValueId LayerPlanner::InPlainOrder(ValueId in, const model::Shape& shape) {
  const Value& value = values_[in];
  return Transposed(in, {batch(), value.places(), value.channels()}, shape);
}

LayerPlanner::ValueId LayerPlanner::AsOneRow(ValueId in) {
  const model::Shape& shape = values_[in].shape;
  const int64_t places = model::ElementCount(shape) / shape[0];
  return Transposed(in, {batch(), shape[0], places}, {shape[0], 1, places});
}

LayerPlanner::ValueId LayerPlanner::Transposed(ValueId in, const MatrixRun& there,
                                               const model::Shape& shape) {
  const Value value = values_[in];
  const MatrixRun back = {there.count, there.columns, there.rows};
  const bool moves = there.rows > 1 && there.columns > 1;
  const ArrayId out = moves ? NewActivation(SizeOf(in)) : value.array;
  const ValueId given = NewValue(out, shape, value.needs_gradient);
  if (moves) Emit(op::Transpose{there, value.array, out}, {value.array, out});
  backward_.push_back([=, this] {
    if (!values_[in].needs_gradient) return;
    const ArrayId gradient = TakeGradient(given);
    if (!moves) return AddGradient(in, gradient);
    const ArrayId in_gradient = NewActivation(SizeOf(in));
    Emit(op::Transpose{back, gradient, in_gradient}, {gradient, in_gradient});
    AddGradient(in, in_gradient);
  });
  return given;
}

}  // namespace dp::engine::cuda

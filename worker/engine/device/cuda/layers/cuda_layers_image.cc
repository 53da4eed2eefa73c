#include "worker/engine/device/cuda/layers/cuda_layers_planner.h"

#include <algorithm>

#include "base/check.h"

namespace dp::engine::cuda {
size_t LayerPlanner::PlanKind(const model::Conv2d& conv, size_t i, ValueId in) {
  const bool relu = Chained(i) && IsKind<model::Relu>(i + 1);
  const size_t last = relu ? i + 1 : i;
  // Pooling then does the backward half of the ReLU, on the smaller side.
  const bool pooled = relu && Chained(last) && IsKind<model::MaxPool2d>(last + 1);
  const model::Shape& from = layers_[i].in;
  const Window window = {batch(),  from[1],     from[2],     conv.in,
                         conv.out, conv.kernel, conv.stride, conv.padding};
  PlanConvolution(window, i, in, last, relu, relu && !pooled);
  return last - i + 1;
}

void LayerPlanner::PlanConvolution(const Window& window, size_t i, ValueId in, size_t last,
                                   bool relu, bool relu_gradient) {
  const int weight = ParameterOf(layers_[i].name + ".weight");
  const int bias = ParameterOf(layers_[i].name + ".bias");
  const int64_t places = window.kernel * window.kernel;
  const bool ordered = window.in > 1 && places > 1;
  const int64_t weights = window.out * window.in * places;
  const ArrayId weight_array = ordered ? NewActivation(weights) : kNone;
  if (ordered) {
    Emit(op::OrderWeight{weight, {window.out, window.in, places}, weight_array}, {weight_array});
  }
  const ArrayId from = values_[in].array;
  const model::Shape& shape = layers_[last].out;
  const ArrayId out = NewActivation(batch() * model::ElementCount(shape));
  const ValueId given = NewValue(out, shape, true);
  Give(last, given);
  Emit(op::Convolve{window, from, weight_array, weight, bias, relu, out},
       {from, weight_array, out});
  backward_.push_back([=, this] {
    const int64_t rows = SizeOf(given) / window.out;
    ArrayId gradient = TakeGradient(given);
    if (relu_gradient) {
      gradient = ReluBiasGradient(out, gradient, rows, window.out, bias);
    } else if (bias != kNone && !values_[given].bias_summed) {
      Emit(op::BiasGradient{kNone, gradient, rows, window.out, bias}, {gradient}, {bias});
    }
    const ArrayId in_order = ordered || bfloat16() ? NewActivation(weights) : kNone;
    Emit(op::ConvolutionWeightGradient{window, from, gradient, in_order, weight},
         {from, gradient, in_order}, {weight});
    if (!values_[in].needs_gradient) return;
    const ArrayId in_gradient = NewActivation(SizeOf(in));
    Emit(op::ConvolutionInputGradient{window, gradient, weight_array, weight, in_gradient},
         {gradient, weight_array, in_gradient});
    AddGradient(in, in_gradient);
  });
}

size_t LayerPlanner::PlanKind(const model::MaxPool2d& pool, size_t i, ValueId in) {
  const model::Shape& shape = layers_[i].in;
  const Window window = {batch(),  shape[1],    shape[2],    shape[0],
                         shape[0], pool.kernel, pool.stride, 0};
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
  const Value value = values_[in];
  const MatrixRun back = {batch(), value.channels(), value.places()};
  const MatrixRun there = {back.count, back.columns, back.rows};
  const bool moves = value.channels_last();
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

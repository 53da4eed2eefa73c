#include "worker/engine/device/cuda/layers/cuda_layers_planner.h"

#include <algorithm>

#include "base/check.h"

namespace dp::engine::cuda {
namespace {

// A tied output layer has an output for each token of the vocabulary. Products are fastest in whole
// tiles.
constexpr int64_t kVocabularyTile = 64;

int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace

size_t LayerPlanner::PlanKind(const model::Linear& linear, size_t i, ValueId in) {
  const int weight = ParameterOf(layers_[i].name + ".weight");
  const int bias = ParameterOf(layers_[i].name + ".bias");
  const Function function = FusedFunction(i);
  const size_t last = function == Function::kNone ? i : i + 1;
  PlanLinear({Rows(in), linear.in, linear.out}, weight, bias, function, last, in,
             /*complete_weight=*/true);
  return last - i + 1;
}

Function LayerPlanner::FusedFunction(size_t i) const {
  if (!Chained(i)) return Function::kNone;
  if (IsKind<model::Relu>(i + 1)) return Function::kRelu;
  const auto* gelu = std::get_if<model::Gelu>(&layers_[i + 1].kind);
  return gelu != nullptr && !gelu->exact ? Function::kGelu : Function::kNone;
}

size_t LayerPlanner::PlanKind(const model::TiedLinear& tied, size_t i, ValueId in) {
  const int weight = ParameterOf(tied.embedding + ".weight");
  const int64_t features = values_[in].shape.back();
  int64_t outputs = layers_[i].out.back();
  const bool by_rows = std::holds_alternative<CrossEntropyLoss>(options_.network.loss);
  if (bfloat16() && by_rows && i + 1 == layers_.size()) {
    const int64_t padded = RoundUp(outputs, kVocabularyTile);
    // The embedding is the first layer, so nothing but padding lies behind its weight.
    DP_CHECK(weight + 1 == static_cast<int>(program_.layout.parameters.size()));
    program_.values_padding = (padded - outputs) * features;
    outputs = padded;
  }
  PlanLinear({Rows(in), features, outputs}, weight, kNone, Function::kNone, i, in,
             /*complete_weight=*/false);
  return 1;
}

void LayerPlanner::PlanLinear(const LinearSize& size, int weight, int bias, Function function,
                              size_t last, ValueId in, bool complete_weight) {
  const ArrayId from = values_[in].array;
  const ArrayId out = NewActivation(size.rows * size.out);
  const ArrayId aux = function == Function::kGelu ? NewActivation(size.rows * size.out) : kNone;
  const ValueId given = NewValue(out, layers_[last].out, true);
  Give(last, given);
  values_[given].gelu = aux;
  if (last + 1 == layers_.size() && function == Function::kNone) logits_in_place_ = true;
  Emit(op::Linear{size, from, weight, bias, function, aux, out}, {from, aux, out});
  backward_.push_back([=, this] {
    const ArrayId gradient = FunctionGradient(given, function, out, aux, size, bias);
    const int bias_here = function == Function::kRelu ? kNone : bias;
    const bool is_padded = weight + 1 == static_cast<int>(program_.layout.parameters.size()) &&
                           size.out * size.in > program_.layout.parameters[weight].size;
    const ArrayId padded = is_padded ? NewArray(Stored::kFloat, size.out * size.in) : kNone;
    Emit(op::LinearWeightGradient{size, from, gradient, weight, bias_here, padded},
         {from, gradient, padded}, {bias_here, complete_weight ? weight : kNone});
    InputGradient(size, gradient, weight, in);
  });
}

ArrayId LayerPlanner::FunctionGradient(ValueId given, Function function, ArrayId out, ArrayId aux,
                                       const LinearSize& size, int bias) {
  const int64_t count = size.rows * size.out;
  const ArrayId gradient = TakeGradient(given);
  if (function == Function::kGelu && !values_[given].through_gelu) {
    return ApplyGradient(Function::kGelu, aux, gradient, count);
  }
  if (function != Function::kRelu) return gradient;
  return ReluBiasGradient(out, gradient, size.rows, size.out, bias);
}

ArrayId LayerPlanner::ReluBiasGradient(ArrayId out, ArrayId gradient, int64_t rows, int64_t columns,
                                       int bias) {
  if (bias == kNone) return ApplyGradient(Function::kRelu, out, gradient, rows * columns);
  const bool in_place = Free(gradient);
  if (!in_place) gradient = ApplyGradient(Function::kRelu, out, gradient, rows * columns);
  const ArrayId relu_out = in_place ? out : kNone;
  Emit(op::BiasGradient{relu_out, gradient, rows, columns, bias}, {relu_out, gradient}, {bias});
  return gradient;
}

ArrayId LayerPlanner::ApplyGradient(Function function, ArrayId saved, ArrayId gradient,
                                    int64_t size) {
  const ArrayId in_gradient = NewActivation(size);
  Emit(op::ApplyGradient{function, saved, gradient, size, in_gradient},
       {saved, gradient, in_gradient});
  return in_gradient;
}

void LayerPlanner::InputGradient(const LinearSize& size, ArrayId gradient, int weight, ValueId in) {
  Value& value = values_[in];
  if (!value.needs_gradient) return;
  const ArrayId gelu = value.readers == 1 ? value.gelu : kNone;
  value.through_gelu = gelu != kNone;
  const ArrayId in_gradient = NewActivation(size.rows * size.in);
  Emit(op::LinearInputGradient{size, gradient, weight, gelu, in_gradient},
       {gradient, gelu, in_gradient});
  AddGradient(in, in_gradient);
}

size_t LayerPlanner::PlanFunction(Function function, size_t i, ValueId in) {
  const ArrayId from = values_[in].array;
  const int64_t size = SizeOf(in);
  const ArrayId out = NewActivation(size);
  const ValueId given = NewValue(out, layers_[i].out, values_[in].needs_gradient);
  Give(i, given);
  Emit(op::Apply{function, from, size, out}, {from, out});
  backward_.push_back([=, this] {
    if (!values_[in].needs_gradient) return;
    const ArrayId saved = SavesOutput(function) ? out : from;
    AddGradient(in, ApplyGradient(function, saved, TakeGradient(given), size));
  });
  return 1;
}

size_t LayerPlanner::PlanKind(const model::Dropout& dropout, size_t i, ValueId in) {
  const Value value = values_[in];
  const int64_t sample = model::ElementCount(value.shape);
  const op::Drop forward = {.p = dropout.p,
                            .seed = options_.network.seed + i,
                            .shape = {batch(), value.channels(), sample / value.channels()},
                            .in = value.array,
                            .out = NewActivation(SizeOf(in))};
  const ValueId given = NewValue(forward.out, layers_[i].out, value.needs_gradient);
  Give(i, given);
  Emit(forward, {forward.in, program_.samples, forward.out});
  backward_.push_back([=, this] {
    if (!values_[in].needs_gradient) return;
    op::Drop backward = forward;
    backward.in = TakeGradient(given);
    backward.out = NewActivation(SizeOf(in));
    Emit(backward, {backward.in, program_.samples, backward.out});
    AddGradient(in, backward.out);
  });
  return 1;
}

size_t LayerPlanner::PlanKind(const model::Add& add, size_t i, ValueId in) {
  const ValueId source = given_[places_.at(add.layer)];
  const ArrayId a = values_[in].array, b = values_[source].array;
  const ArrayId sum = NewActivation(SizeOf(in));
  const bool needs_gradient = values_[in].needs_gradient || values_[source].needs_gradient;
  const ValueId given = NewValue(sum, layers_[i].out, needs_gradient);
  Give(i, given);
  backward_.push_back([=, this] {
    if (!needs_gradient) return;
    const ArrayId gradient = TakeGradient(given);
    AddGradient(in, gradient);
    AddGradient(source, gradient);
  });
  if (GivesToNext(i) && (IsKind<model::LayerNorm>(i + 1) || IsKind<model::RmsNorm>(i + 1))) {
    PlanNorm(i + 1, given, b, a);
    return 2;
  }
  Emit(op::Sum{a, b, SizeOf(in), sum}, {a, b, sum});
  return 1;
}

}  // namespace dp::engine::cuda

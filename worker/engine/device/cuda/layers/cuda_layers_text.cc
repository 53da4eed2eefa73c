#include "worker/engine/device/cuda/layers/cuda_layers_planner.h"

#include <algorithm>

#include "base/check.h"

namespace dp::engine::cuda {
namespace {

// The library's fused attention takes heads of up to this width, in multiples of 8.
constexpr int64_t kFusedHeadMax = 128;

// torch.nn.LayerNorm's default.
constexpr double kLayerNormEpsilon = 1e-5;

}  // namespace

size_t LayerPlanner::PlanKind(const model::Embedding&, size_t i, ValueId) {
  const int weight = ParameterOf(layers_[i].name + ".weight");
  const bool with_positions = Chained(i) && IsKind<model::Positions>(i + 1);
  const size_t last = with_positions ? i + 1 : i;
  const int positions = with_positions ? ParameterOf(layers_[last].name + ".weight") : kNone;
  const model::Shape& shape = layers_[last].out;
  const ArrayId out = NewActivation(batch() * model::ElementCount(shape));
  const ValueId given = NewValue(out, shape, true);
  Give(last, given);
  Emit(op::Embed{weight, positions, out}, {program_.tokens, out});
  backward_.push_back([=, this] {
    const ArrayId gradient = TakeGradient(given);
    if (positions != kNone) PositionsGradient(gradient, model::ElementCount(shape), positions);
    if (!Tied(layers_[i].name)) Emit(op::ZeroGradient{weight}, {});
    Emit(op::EmbeddingGradient{gradient, weight}, {gradient, program_.tokens}, {weight});
  });
  return last - i + 1;
}

bool LayerPlanner::Tied(const std::string& embedding) const {
  return std::any_of(layers_.begin(), layers_.end(), [&](const model::CheckedLayer& layer) {
    const auto* tied = std::get_if<model::TiedLinear>(&layer.kind);
    return tied != nullptr && tied->embedding == embedding;
  });
}

void LayerPlanner::PositionsGradient(ArrayId gradient, int64_t size, int weight) {
  Emit(op::PositionsGradient{gradient, batch(), size, weight}, {gradient}, {weight});
}

size_t LayerPlanner::PlanKind(const model::Positions&, size_t i, ValueId in) {
  const int weight = ParameterOf(layers_[i].name + ".weight");
  const ArrayId from = values_[in].array;
  const ArrayId out = NewActivation(SizeOf(in));
  const ValueId given = NewValue(out, layers_[i].out, true);
  Give(i, given);
  Emit(op::AddPositions{from, weight, out}, {from, out});
  backward_.push_back([=, this] {
    const ArrayId gradient = TakeGradient(given);
    PositionsGradient(gradient, model::ElementCount(values_[in].shape), weight);
    AddGradient(in, gradient);
  });
  return 1;
}

size_t LayerPlanner::PlanKind(const model::LayerNorm&, size_t i, ValueId in) {
  PlanNorm(i, in, kNone, values_[in].array);
  return 1;
}

size_t LayerPlanner::PlanKind(const model::RmsNorm&, size_t i, ValueId in) {
  PlanNorm(i, in, kNone, values_[in].array);
  return 1;
}

size_t LayerPlanner::PlanKind(const model::Softmax&, size_t i, ValueId in) {
  const int64_t rows = Rows(in), columns = layers_[i].in.back();
  const ArrayId from = values_[in].array;
  const ArrayId out = NewActivation(SizeOf(in));
  const ValueId given = NewValue(out, layers_[i].out, values_[in].needs_gradient);
  Give(i, given);
  Emit(op::Softmax{rows, columns, from, out}, {from, out});
  backward_.push_back([=, this] {
    if (!values_[in].needs_gradient) return;
    const ArrayId gradient = TakeGradient(given);
    const ArrayId in_gradient = NewActivation(SizeOf(in));
    Emit(op::SoftmaxGradient{rows, columns, out, gradient, in_gradient},
         {out, gradient, in_gradient});
    AddGradient(in, in_gradient);
  });
  return 1;
}

void LayerPlanner::PlanNorm(size_t i, ValueId in, ArrayId added, ArrayId from) {
  const int weight = ParameterOf(layers_[i].name + ".weight");
  const int bias = ParameterOf(layers_[i].name + ".bias");
  const auto* rms = std::get_if<model::RmsNorm>(&layers_[i].kind);
  const double epsilon = rms == nullptr ? kLayerNormEpsilon : rms->epsilon;
  const ArrayId sum = values_[in].array;
  const int64_t columns = layers_[i].in.back(), rows = SizeOf(in) / columns;
  const ArrayId mean = NewArray(Stored::kFloat, rows), deviation = NewArray(Stored::kFloat, rows);
  const ArrayId out = NewActivation(rows * columns);
  const ValueId given = NewValue(out, layers_[i].out, true);
  Give(i, given);
  Emit(op::Norm{from, added, sum, weight, bias, epsilon, rows, columns, mean, deviation, out},
       {from, added, sum, mean, deviation, out});
  backward_.push_back([=, this] {
    const ArrayId gradient = TakeGradient(given);
    const ArrayId shortcut = PopGradient(in);
    const ArrayId in_gradient = NewActivation(rows * columns);
    Emit(op::NormGradient{sum, gradient, shortcut, weight, bias, rows, columns, mean, deviation,
                          in_gradient},
         {sum, gradient, shortcut, mean, deviation, in_gradient}, {bias, weight});
    AddGradient(in, in_gradient);
  });
}

size_t LayerPlanner::PlanKind(const model::CausalAttention& attention, size_t i, ValueId in) {
  return PlanKind(model::Attention{attention.heads, /*causal=*/true}, i, in);
}

size_t LayerPlanner::PlanKind(const model::Attention& attention, size_t i, ValueId in) {
  const model::Shape& shape = layers_[i].out;
  const int64_t head_features = shape[1] / attention.heads;
  const bool fused = bfloat16() && options_.fused_attention && attention.causal &&
                     head_features % 8 == 0 && head_features <= kFusedHeadMax;
  const HeadsSize size = {batch(),       shape[0],         attention.heads,
                          head_features, attention.causal, fused};
  const auto rotated = [=, this](ArrayId array, bool backwards) {
    if (!attention.rotary) return array;
    const ArrayId out = NewActivation(SizeOf(in));
    Emit(op::Rotate{size, backwards, array, out}, {array, out});
    return out;
  };
  const ArrayId turned = rotated(values_[in].array, /*backwards=*/false);
  const ArrayId from = AsAttended(turned, SizeOf(in), fused);
  const int64_t count = batch() * model::ElementCount(shape);
  const ArrayId out = NewArray(fused ? Stored::kActivation : Stored::kFloat, count);
  const ArrayId log_sums = NewArray(Stored::kFloat, batch() * attention.heads * shape[0]);
  Emit(op::Attend{size, from, log_sums, out}, {from, log_sums, out});
  const ValueId given =
      NewValue(AsActivation(out, count, fused), shape, values_[in].needs_gradient);
  Give(i, given);
  backward_.push_back([=, this] {
    if (!values_[in].needs_gradient) return;
    const ArrayId gradient = AsAttended(TakeGradient(given), count, fused);
    const ArrayId in_gradient = NewArray(fused ? Stored::kActivation : Stored::kFloat, SizeOf(in));
    Emit(op::AttendGradient{size, from, log_sums, out, gradient, in_gradient},
         {from, log_sums, out, gradient, in_gradient});
    AddGradient(in, rotated(AsActivation(in_gradient, SizeOf(in), fused), /*backwards=*/true));
  });
  return 1;
}

ArrayId LayerPlanner::AsAttended(ArrayId activation, int64_t size, bool fused) {
  if (fused || !bfloat16()) return activation;
  const ArrayId out = NewArray(Stored::kFloat, size);
  Emit(op::Convert{/*to_float=*/true, size, activation, out}, {activation, out});
  return out;
}

ArrayId LayerPlanner::AsActivation(ArrayId attended, int64_t size, bool fused) {
  if (fused || !bfloat16()) return attended;
  const ArrayId out = NewActivation(size);
  Emit(op::Convert{/*to_float=*/false, size, attended, out}, {attended, out});
  return out;
}

}  // namespace dp::engine::cuda

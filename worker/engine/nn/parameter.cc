#include "worker/engine/nn/parameter.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "worker/engine/nn/generator.h"

namespace dp::engine {
namespace {

constexpr int64_t kAlignment = 16;

struct WeightShape {
  model::Shape shape;  // empty: the layer has no parameters
  bool bias = false;
};

WeightShape WeightOf(const model::LayerKind& kind) {
  if (const auto* linear = std::get_if<model::Linear>(&kind)) {
    return {{linear->out, linear->in}, linear->bias};
  }
  if (const auto* conv = std::get_if<model::Conv2d>(&kind)) {
    return {{conv->out, conv->in, conv->kernel, conv->kernel}, conv->bias};
  }
  return {};
}

void Append(ParameterLayout& layout, std::string name, model::Shape shape, int64_t fan_in) {
  const int64_t size = model::ElementCount(shape);
  layout.parameters.push_back({std::move(name), std::move(shape), layout.size, size, fan_in});
  layout.size += (size + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

ParameterLayout LayOut(absl::Span<const model::CheckedLayer> layers) {
  ParameterLayout layout;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const auto [shape, bias] = WeightOf(layer->kind);
    if (shape.empty()) continue;
    const int64_t fan_in = model::ElementCount(shape) / shape[0];
    if (bias) Append(layout, layer->name + ".bias", {shape[0]}, fan_in);
    Append(layout, layer->name + ".weight", shape, fan_in);
  }
  return layout;
}

void Initialize(const ParameterLayout& layout, uint64_t seed, absl::Span<float> values) {
  DP_CHECK(static_cast<int64_t>(values.size()) == layout.size);
  std::fill(values.begin(), values.end(), 0.0f);
  Generator generator(seed);
  // The layout is last to first; PyTorch draws first to last, weight before bias.
  for (auto parameter = layout.parameters.rbegin(); parameter != layout.parameters.rend();
       ++parameter) {
    const float bound = static_cast<float>(1 / std::sqrt(static_cast<double>(parameter->fan_in)));
    for (float& value : values.subspan(parameter->offset, parameter->size)) {
      value = generator.Uniform(-bound, bound);
    }
  }
}

}  // namespace dp::engine

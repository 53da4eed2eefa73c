#include "worker/engine/nn/parameter.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/overloaded.h"
#include "worker/engine/nn/generator.h"
#include "worker/engine/nn/normal.h"

namespace dp::engine {
namespace {

constexpr int64_t kAlignment = 16;

struct Weights {
  model::Shape shape;  // empty: the layer has no parameters of its own
  Initial initial;
  bool bias = false;
  Initial bias_initial;
};

int64_t FanIn(const model::Shape& shape) { return model::ElementCount(shape) / shape[0]; }

constexpr Initial kOnes = {Initial::Kind::kConstant, 1};

Initial Normal(double std) { return {Initial::Kind::kNormal, static_cast<float>(std)}; }

Initial Uniform(const model::Shape& shape) {
  const double bound = 1 / std::sqrt(static_cast<double>(FanIn(shape)));
  return {Initial::Kind::kUniform, static_cast<float>(bound)};
}

// Those of a linear layer or a convolution.
template <typename Kind>
Weights WeightsOf(const Kind& kind, model::Shape shape) {
  if (kind.init_std != 0) {
    return {std::move(shape), Normal(kind.init_std), kind.bias, Initial()};
  }
  const Initial initial = Uniform(shape);
  return {std::move(shape), initial, kind.bias, initial};
}

Weights WeightsOf(const model::CheckedLayer& layer) {
  return std::visit(
      Overloaded{
          [](const model::Linear& linear) {
            return WeightsOf(linear, {linear.out, linear.in});
          },
          [](const model::Conv2d& conv) {
            return WeightsOf(conv, {conv.out, conv.in / conv.groups, conv.kernel, conv.kernel});
          },
          [](const model::Conv1d& conv) {
            return WeightsOf(conv, {conv.out, conv.in / conv.groups, conv.kernel});
          },
          [](const model::Embedding& embedding) {
            return Weights{{embedding.vocabulary, embedding.features}, Normal(embedding.init_std)};
          },
          [&](const model::Positions& positions) {
            return Weights{layer.in, Normal(positions.init_std)};
          },
          [&](const model::LayerNorm&) {
            return Weights{{layer.in.back()}, kOnes, true, Initial()};
          },
          [&](const model::RmsNorm&) {
            return Weights{{layer.in.back()}, kOnes, false, Initial()};
          },
          [&](const model::BatchNorm&) {
            return Weights{{layer.in.front()}, kOnes, true, Initial()};
          },
          [](const auto&) { return Weights(); },
      },
      layer.kind);
}

void Append(ParameterLayout& layout, std::string name, model::Shape shape, int64_t fan_in,
            const Initial& initial) {
  const int64_t size = model::ElementCount(shape);
  layout.parameters.push_back(
      {std::move(name), std::move(shape), layout.size, size, fan_in, initial});
  layout.size += (size + kAlignment - 1) / kAlignment * kAlignment;
}

void AppendStatistic(ParameterLayout& layout, std::string name, model::Shape shape, double momentum,
                     const Initial& initial) {
  Append(layout, std::move(name), std::move(shape), 1, initial);
  layout.parameters.back().momentum = momentum;
  layout.parameters.back().options.frozen = true;
}

Initial InitialOf(const model::PluginParameter& parameter) {
  switch (parameter.initial) {
    case model::PluginParameter::Initial::kUniform:
      return {Initial::Kind::kUniform, parameter.scale};
    case model::PluginParameter::Initial::kNormal:
      return {Initial::Kind::kNormal, parameter.scale};
    case model::PluginParameter::Initial::kConstant:
      break;
  }
  return {Initial::Kind::kConstant, parameter.scale};
}

// The last first, as bias comes before weight in other layers.
void AppendOfPlugin(ParameterLayout& layout, const model::CheckedLayer& layer, bool statistics) {
  const std::vector<model::PluginParameter>& all = layer.plugin_parameters;
  for (auto parameter = all.rbegin(); parameter != all.rend(); ++parameter) {
    if ((parameter->momentum > 0) != statistics) continue;
    std::string name = layer.name + "." + parameter->name;
    const Initial initial = InitialOf(*parameter);
    if (statistics) {
      AppendStatistic(layout, std::move(name), parameter->shape, parameter->momentum, initial);
    } else {
      Append(layout, std::move(name), parameter->shape, FanIn(parameter->shape), initial);
    }
  }
}

void AppendStatistics(ParameterLayout& layout, const model::CheckedLayer& layer) {
  AppendOfPlugin(layout, layer, /*statistics=*/true);
  const auto* norm = std::get_if<model::BatchNorm>(&layer.kind);
  if (norm == nullptr) return;
  const auto append = [&](const char* name, const Initial& initial) {
    AppendStatistic(layout, layer.name + name, {layer.in.front()}, norm->momentum, initial);
  };
  append(".running_var", kOnes);
  append(".running_mean", Initial());
}

void Draw(const Initial& initial, Generator& generator, absl::Span<float> values) {
  switch (initial.kind) {
    case Initial::Kind::kUniform:
      for (float& value : values) value = generator.Uniform(-initial.scale, initial.scale);
      break;
    case Initial::Kind::kNormal:
      FillNormal(generator, initial.scale, values);
      break;
    case Initial::Kind::kConstant:
      std::fill(values.begin(), values.end(), initial.scale);
  }
}

}  // namespace

ParameterLayout LayOut(absl::Span<const model::CheckedLayer> layers) {
  ParameterLayout layout;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    AppendOfPlugin(layout, *layer, /*statistics=*/false);
    const Weights weights = WeightsOf(*layer);
    const model::Shape& shape = weights.shape;
    if (shape.empty()) continue;
    if (weights.bias) {
      Append(layout, layer->name + ".bias", {shape[0]}, FanIn(shape), weights.bias_initial);
    }
    Append(layout, layer->name + ".weight", shape, FanIn(shape), weights.initial);
  }
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    AppendStatistics(layout, *layer);
  }
  return layout;
}

ParameterLayout ParameterLayout::Trained() const {
  ParameterLayout trained = *this;
  while (!trained.parameters.empty() && trained.parameters.back().is_statistic()) {
    trained.size = trained.parameters.back().offset;
    trained.parameters.pop_back();
  }
  return trained;
}

void StepStatistics(const ParameterLayout& layout, absl::Span<const float> gradients,
                    absl::Span<float> values) {
  for (const Parameter& p : layout.parameters) {
    if (!p.is_statistic()) continue;
    const auto kept = static_cast<float>(1 - p.momentum);
    const auto taken = static_cast<float>(p.momentum);
    for (int64_t i = p.offset; i < p.offset + p.size; ++i) {
      values[i] = kept * values[i] + taken * gradients[i];
    }
  }
}

void Initialize(const ParameterLayout& layout, uint64_t seed, absl::Span<float> values) {
  DP_CHECK(static_cast<int64_t>(values.size()) == layout.size);
  std::fill(values.begin(), values.end(), 0.0f);
  Generator generator(seed);
  // The layout runs from the last layer to the first; PyTorch draws from first to last, weight
  // before bias.
  for (auto parameter = layout.parameters.rbegin(); parameter != layout.parameters.rend();
       ++parameter) {
    Draw(parameter->initial, generator, values.subspan(parameter->offset, parameter->size));
  }
}

}  // namespace dp::engine

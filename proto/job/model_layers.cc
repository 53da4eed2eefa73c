#include "proto/job/model_layers.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "proto/job/plugin_config.h"

namespace dp {
namespace {

// The name of the layer that is a whole model; weight files contain it.
constexpr char kPluginModelName[] = "model";

model::Linear Of(const v1::LinearSpec& spec) {
  return {.in = spec.in(),
          .out = spec.out(),
          .bias = !spec.has_bias() || spec.bias(),
          .init_std = spec.init_std()};
}

// The value of a field whose absence is a 0.
template <typename Number>
Number OrDefault(Number value, Number fallback) {
  return value == 0 ? fallback : value;
}

template <typename Convolution, typename Spec>
Convolution ConvolutionOf(const Spec& spec) {
  return {.in = spec.in(),
          .out = spec.out(),
          .kernel = spec.kernel(),
          .stride = OrDefault(spec.stride(), 1),
          .padding = spec.padding(),
          .bias = !spec.has_bias() || spec.bias(),
          .groups = OrDefault(spec.groups(), 1),
          .dilation = OrDefault(spec.dilation(), 1),
          .init_std = spec.init_std()};
}

model::MaxPool2d Of(const v1::MaxPool2dSpec& spec) {
  return {.kernel = spec.kernel(), .stride = spec.stride(), .padding = spec.padding()};
}

model::AvgPool2d Of(const v1::AvgPool2dSpec& spec) {
  return {.kernel = spec.kernel(), .stride = spec.stride(), .padding = spec.padding()};
}

model::AdaptiveAvgPool2d Of(const v1::AdaptiveAvgPool2dSpec& spec) {
  return {.rows = OrDefault(spec.rows(), 1), .columns = OrDefault(spec.columns(), 1)};
}

model::BatchNorm Of(const v1::BatchNormSpec& spec) {
  model::BatchNorm norm;
  if (spec.has_epsilon()) norm.epsilon = spec.epsilon();
  if (spec.has_momentum()) norm.momentum = spec.momentum();
  norm.sync = spec.sync();
  return norm;
}

model::RmsNorm Of(const v1::RmsNormSpec& spec) {
  model::RmsNorm norm;
  if (spec.has_epsilon()) norm.epsilon = spec.epsilon();
  return norm;
}

model::Attention Of(const v1::AttentionSpec& spec) {
  return {.heads = spec.heads(), .causal = spec.causal(), .rotary = spec.rotary()};
}

absl::StatusOr<model::LayerKind> Of(const v1::GeluSpec& spec) {
  const std::string& form = spec.approximate();
  if (form.empty() || form == "tanh") return model::Gelu{};
  if (form == "none") return model::Gelu{.exact = true};
  return absl::InvalidArgumentError(absl::StrCat(
      "gelu.approximate is '", absl::Utf8SafeCEscape(form), "'; it must be tanh or none"));
}

model::Embedding Of(const v1::EmbeddingSpec& spec) {
  return {.vocabulary = spec.vocabulary(),
          .features = spec.features(),
          .init_std = spec.has_init_std() ? spec.init_std() : 1};
}

model::Positions Of(const v1::PositionsSpec& spec) {
  return {.init_std = spec.has_init_std() ? spec.init_std() : 1};
}

absl::StatusOr<model::LayerKind> Of(const v1::PluginSpec& spec) {
  DP_ASSIGN_OR_RETURN(std::vector<model::PluginValue> config, PluginConfig(spec.config()));
  return model::Plugin{
      .library = spec.library(), .layer = spec.layer(), .config = std::move(config)};
}

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  const google::protobuf::OneofDescriptor& kinds =
      *v1::LayerSpec::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kinds.field_count(); ++i) names.emplace_back(kinds.field(i)->json_name());
  return names;
}

absl::StatusOr<model::LayerKind> KindOf(const v1::LayerSpec& spec) {
  switch (spec.kind_case()) {
    case v1::LayerSpec::kLinear:
      return Of(spec.linear());
    case v1::LayerSpec::kConv2D:
      return ConvolutionOf<model::Conv2d>(spec.conv2d());
    case v1::LayerSpec::kConv1D:
      return ConvolutionOf<model::Conv1d>(spec.conv1d());
    case v1::LayerSpec::kRelu:
      return model::Relu{};
    case v1::LayerSpec::kMaxPool2D:
      return Of(spec.max_pool2d());
    case v1::LayerSpec::kFlatten:
      return model::Flatten{};
    case v1::LayerSpec::kDropout:
      return model::Dropout{.p = spec.dropout().p()};
    case v1::LayerSpec::kEmbedding:
      return Of(spec.embedding());
    case v1::LayerSpec::kPositions:
      return Of(spec.positions());
    case v1::LayerSpec::kLayerNorm:
      return model::LayerNorm{};
    case v1::LayerSpec::kGelu:
      return Of(spec.gelu());
    case v1::LayerSpec::kAvgPool2D:
      return Of(spec.avg_pool2d());
    case v1::LayerSpec::kAdaptiveAvgPool2D:
      return Of(spec.adaptive_avg_pool2d());
    case v1::LayerSpec::kBatchNorm:
      return Of(spec.batch_norm());
    case v1::LayerSpec::kRmsNorm:
      return Of(spec.rms_norm());
    case v1::LayerSpec::kSilu:
      return model::Silu{};
    case v1::LayerSpec::kTanh:
      return model::Tanh{};
    case v1::LayerSpec::kSigmoid:
      return model::Sigmoid{};
    case v1::LayerSpec::kSoftmax:
      return model::Softmax{};
    case v1::LayerSpec::kAttention:
      return Of(spec.attention());
    case v1::LayerSpec::kCausalAttention:
      return model::CausalAttention{.heads = spec.causal_attention().heads()};
    case v1::LayerSpec::kAdd:
      return model::Add{.layer = spec.add().layer()};
    case v1::LayerSpec::kTiedLinear:
      return model::TiedLinear{.embedding = spec.tied_linear().embedding()};
    case v1::LayerSpec::kPlugin:
      return Of(spec.plugin());
    case v1::LayerSpec::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a layer has no kind; give one of ", absl::StrJoin(KindNames(), ", ")));
}

}  // namespace

absl::StatusOr<std::vector<model::LayerSpec>> ModelLayers(const v1::ModelSpec& spec) {
  if (!spec.preset().empty()) return model::Preset(spec.preset());
  std::vector<model::LayerSpec> layers;
  if (spec.has_plugin()) {
    DP_ASSIGN_OR_RETURN(model::LayerKind plugin, Of(spec.plugin()));
    layers.push_back({.name = kPluginModelName, .kind = std::move(plugin)});
    return layers;
  }
  for (int i = 0; i < spec.layers_size(); ++i) {
    absl::StatusOr<model::LayerKind> kind = KindOf(spec.layers(i));
    if (!kind.ok())
      return absl::InvalidArgumentError(absl::StrCat("layers[", i, "]: ", kind.status().message()));
    layers.push_back({.name = spec.layers(i).name(),
                      .kind = *std::move(kind),
                      .input = spec.layers(i).input(),
                      .device = spec.layers(i).device()});
  }
  return layers;
}

std::vector<std::string> PluginLibraries(const v1::ModelSpec& spec) {
  std::vector<std::string> libraries;
  const auto note = [&](const std::string& library) {
    if (!absl::c_linear_search(libraries, library)) libraries.push_back(library);
  };
  if (spec.has_plugin()) note(spec.plugin().library());
  for (const v1::LayerSpec& layer : spec.layers()) {
    if (layer.has_plugin()) note(layer.plugin().library());
  }
  return libraries;
}

}  // namespace dp

#include "worker/engine/device/cpu/cpu_network.h"

#include <algorithm>

#include "base/check.h"
#include "base/overloaded.h"
#include "worker/engine/nn/cross_entropy.h"

namespace dp::engine {
namespace {

// Finds the parameters of each layer in the flat arrays.
class ParameterFinder {
 public:
  ParameterFinder(absl::Span<const model::CheckedLayer> layers, absl::Span<const float> values,
                  absl::Span<float> gradients)
      : layout_(LayOut(layers)), values_(values), gradients_(gradients) {
    DP_CHECK(static_cast<int64_t>(values.size()) == layout_.size);
    DP_CHECK(static_cast<int64_t>(gradients.size()) == layout_.size);
  }

  ParameterViews ViewsOf(const model::CheckedLayer& layer) const {
    const auto* tied = std::get_if<model::TiedLinear>(&layer.kind);
    const Parameter* weight = Find((tied == nullptr ? layer.name : tied->embedding) + ".weight");
    const Parameter* bias = Find(layer.name + ".bias");
    ParameterViews views;
    if (weight != nullptr) {
      views.weight = values_.data() + weight->offset;
      views.weight_gradient = gradients_.data() + weight->offset;
    }
    if (bias != nullptr) {
      views.bias = values_.data() + bias->offset;
      views.bias_gradient = gradients_.data() + bias->offset;
    }
    return views;
  }

 private:
  const Parameter* Find(const std::string& name) const {
    const auto found = std::find_if(layout_.parameters.begin(), layout_.parameters.end(),
                                    [&](const Parameter& p) { return p.name == name; });
    return found == layout_.parameters.end() ? nullptr : &*found;
  }

  const ParameterLayout layout_;
  const absl::Span<const float> values_;
  const absl::Span<float> gradients_;
};

template <typename Kind>
bool IsKind(absl::Span<const model::CheckedLayer> layers, size_t i) {
  return i < layers.size() && std::holds_alternative<Kind>(layers[i].kind);
}

// Whether an add reads the output of layer `i`.
bool IsAdded(absl::Span<const model::CheckedLayer> layers, size_t i) {
  return std::any_of(layers.begin(), layers.end(), [&](const model::CheckedLayer& layer) {
    const auto* add = std::get_if<model::Add>(&layer.kind);
    return add != nullptr && add->layer == layers[i].name;
  });
}

bool IsTied(absl::Span<const model::CheckedLayer> layers, const std::string& embedding) {
  return std::any_of(layers.begin(), layers.end(), [&](const model::CheckedLayer& layer) {
    const auto* tied = std::get_if<model::TiedLinear>(&layer.kind);
    return tied != nullptr && tied->embedding == embedding;
  });
}

FusedRelu ReluAfter(absl::Span<const model::CheckedLayer> layers, size_t i) {
  const bool fuses = IsKind<model::Linear>(layers, i) || IsKind<model::Conv2d>(layers, i);
  if (!fuses || !IsKind<model::Relu>(layers, i + 1)) return FusedRelu::kNone;
  if (IsAdded(layers, i) || IsAdded(layers, i + 1)) return FusedRelu::kNone;
  return IsKind<model::MaxPool2d>(layers, i + 2) ? FusedRelu::kForward : FusedRelu::kBoth;
}

int ParameterCount(const model::CheckedLayer& layer, const ParameterViews& views) {
  if (std::holds_alternative<model::TiedLinear>(layer.kind)) return 0;
  return (views.weight != nullptr) + (views.bias != nullptr);
}

int64_t RowsOf(const model::Shape& shape) { return model::ElementCount(shape) / shape.back(); }

}  // namespace

CpuNetwork::CpuNetwork(CpuStream& cpu, absl::Span<const model::CheckedLayer> layers, int batch_size,
                       uint64_t seed, absl::Span<const float> values, absl::Span<float> gradients)
    : batch_size_(batch_size),
      classes_(static_cast<int>(layers.back().out.back())),
      rows_of_sample_(RowsOf(layers.back().out)) {
  const ParameterFinder finder(layers, values, gradients);
  input_ = MakeActivation(cpu, PlainDesc(batch_size, layers.front().in), false);
  const Activation* in = &input_;
  FusedRelu relu = FusedRelu::kNone;
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool pooled_relu = relu == FusedRelu::kForward;
    relu = ReluAfter(layers, i);
    const ParameterViews parameters = finder.ViewsOf(layers[i]);
    const CpuLayerInput input = {cpu,
                                 layers[i],
                                 batch_size,
                                 *in,
                                 {.parameters = parameters,
                                  .relu = relu,
                                  .pooled_relu = pooled_relu,
                                  .tied = IsTied(layers, layers[i].name),
                                  .seed = seed + i}};
    places_[layers[i].name] = layers_.size();
    readers_.emplace_back();
    layers_.push_back(MakeLayer(input));
    parameter_counts_.push_back(ParameterCount(layers[i], parameters));
    in = &layers_.back()->out();
    if (relu != FusedRelu::kNone) ++i;
  }
  const auto plain = PlainDesc(batch_size, layers.back().out);
  output_ = std::make_unique<Formatted>(cpu, in->value, plain);
  if (in->needs_gradient()) {
    output_gradient_ = std::make_unique<Formatted>(cpu, in->gradient, plain);
  }
}

std::unique_ptr<CpuLayer> CpuNetwork::MakeLayer(const CpuLayerInput& input) {
  return std::visit(Overloaded{[&](const auto& kind) { return MakeCpuLayer(kind, input); },
                               [&](const model::Add& layer) -> std::unique_ptr<CpuLayer> {
                                 const size_t source = places_.at(layer.layer);
                                 std::unique_ptr<CpuAdd> add =
                                     MakeCpuAdd(input, layers_[source]->out());
                                 readers_[source].push_back(add.get());
                                 return add;
                               }},
                    input.layer.kind);
}

BatchResult CpuNetwork::Forward(const Batch& batch, Mode mode) {
  DP_CHECK(batch.count >= 0 && batch.count <= batch_size_);
  const absl::Span<float> input = Values(input_.value);
  DP_CHECK(batch.images.size() == input.size());
  std::copy(batch.images.begin(), batch.images.end(), input.begin());
  labels_.assign(batch.labels.begin(), batch.labels.begin() + batch.count * rows_of_sample_);

  for (const auto& layer : layers_) layer->Forward(batch, mode);
  output_->Fetch();
  const CrossEntropy loss = SoftmaxCrossEntropy(logits(), classes_, labels_);
  return {.loss_sum = loss.loss_sum, .correct = loss.correct, .count = batch.count};
}

void CpuNetwork::Backward(float scale, const GradientReady& ready) {
  if (output_gradient_ == nullptr) return;
  SoftmaxCrossEntropyGradient(logits(), classes_, labels_, scale,
                              Values(output_gradient_->memory()));
  output_gradient_->Store();
  int next = 0;
  for (size_t i = layers_.size(); i-- > 0;) {
    for (CpuAdd* add : readers_[i]) add->AddToSource();
    layers_[i]->Backward([&] {
      for (int k = 0; k < parameter_counts_[i]; ++k) ready(next++);
    });
  }
}

void CpuNetwork::ReadLogits(absl::Span<float> out) const {
  DP_CHECK(out.size() == logits().size());
  std::copy(logits().begin(), logits().end(), out.begin());
}

absl::Span<const float> CpuNetwork::logits() const { return Values(output_->memory()); }

}  // namespace dp::engine

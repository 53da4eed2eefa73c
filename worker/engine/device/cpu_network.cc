#include "worker/engine/device/cpu_network.h"

#include <algorithm>

#include "base/check.h"
#include "base/overloaded.h"
#include "worker/engine/nn/cross_entropy.h"

namespace dp::engine {
namespace {

bool HasParameters(const model::CheckedLayer& layer) {
  return std::holds_alternative<model::Linear>(layer.kind) ||
         std::holds_alternative<model::Conv2d>(layer.kind);
}

absl::Span<float> Floats(const dnnl::memory& memory) {
  return {static_cast<float*>(memory.get_data_handle()), memory.get_desc().get_size() / 4};
}

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
    const Parameter* weight = Find(layer.name + ".weight");
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

FusedRelu ReluAfter(absl::Span<const model::CheckedLayer> layers, size_t i) {
  if (!HasParameters(layers[i]) || !IsKind<model::Relu>(layers, i + 1)) return FusedRelu::kNone;
  return IsKind<model::MaxPool2d>(layers, i + 2) ? FusedRelu::kForward : FusedRelu::kBoth;
}

// `before` and `after`: the ReLUs that the layer made last and this one do.
std::unique_ptr<CpuLayer> MakeLayer(const CpuLayerInput& input, const ParameterViews& views,
                                    FusedRelu before, FusedRelu after, uint64_t seed) {
  return std::visit(Overloaded{
                        [&](const model::Linear&) { return MakeCpuLinear(input, views, after); },
                        [&](const model::Conv2d&) { return MakeCpuConv2d(input, views, after); },
                        [&](const model::Relu&) { return MakeCpuRelu(input); },
                        [&](const model::MaxPool2d&) {
                          return MakeCpuMaxPool2d(input, before == FusedRelu::kForward);
                        },
                        [&](const model::Flatten&) { return MakeCpuFlatten(input); },
                        [&](const model::Dropout&) { return MakeCpuDropout(input, seed); },
                    },
                    input.layer.kind);
}

}  // namespace

CpuNetwork::CpuNetwork(CpuStream& cpu, absl::Span<const model::CheckedLayer> layers, int batch_size,
                       uint64_t seed, absl::Span<const float> values, absl::Span<float> gradients)
    : batch_size_(batch_size), classes_(static_cast<int>(model::ElementCount(layers.back().out))) {
  const ParameterFinder finder(layers, values, gradients);
  input_ = MakeActivation(cpu, PlainDesc(batch_size, layers.front().in), false);
  const Activation* in = &input_;
  FusedRelu before = FusedRelu::kNone;
  for (size_t i = 0; i < layers.size(); ++i) {
    const ParameterViews views = finder.ViewsOf(layers[i]);
    const FusedRelu after = ReluAfter(layers, i);
    layers_.push_back(MakeLayer({cpu, layers[i], batch_size, *in}, views, before, after, seed + i));
    parameter_counts_.push_back((views.weight != nullptr) + (views.bias != nullptr));
    in = &layers_.back()->out();
    before = after;
    if (after != FusedRelu::kNone) ++i;
  }
  const auto plain = PlainDesc(batch_size, layers.back().out);
  output_ = std::make_unique<Formatted>(cpu, in->value, plain);
  if (in->needs_gradient()) {
    output_gradient_ = std::make_unique<Formatted>(cpu, in->gradient, plain);
  }
}

BatchResult CpuNetwork::Forward(const Batch& batch, Mode mode) {
  DP_CHECK(batch.count >= 0 && batch.count <= batch_size_);
  const absl::Span<float> input = Floats(input_.value);
  DP_CHECK(batch.images.size() == input.size());
  std::copy(batch.images.begin(), batch.images.end(), input.begin());
  labels_.assign(batch.labels.begin(), batch.labels.begin() + batch.count);

  for (const auto& layer : layers_) layer->Forward(batch, mode);
  output_->Fetch();
  const CrossEntropy loss = SoftmaxCrossEntropy(logits(), classes_, labels_);
  return {.loss_sum = loss.loss_sum, .correct = loss.correct, .count = batch.count};
}

void CpuNetwork::Backward(float scale, const GradientReady& ready) {
  if (output_gradient_ == nullptr) return;
  SoftmaxCrossEntropyGradient(logits(), classes_, labels_, scale,
                              Floats(output_gradient_->memory()));
  output_gradient_->Store();
  int next = 0;
  for (size_t i = layers_.size(); i-- > 0;) {
    layers_[i]->Backward([&] {
      for (int k = 0; k < parameter_counts_[i]; ++k) ready(next++);
    });
  }
}

void CpuNetwork::ReadLogits(absl::Span<float> out) const {
  DP_CHECK(out.size() == logits().size());
  std::copy(logits().begin(), logits().end(), out.begin());
}

absl::Span<const float> CpuNetwork::logits() const { return Floats(output_->memory()); }

}  // namespace dp::engine

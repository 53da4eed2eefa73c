#include "worker/engine/device/cpu/cpu_network.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/overloaded.h"

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
    const std::string& weights = tied == nullptr ? layer.name : tied->embedding;
    ParameterViews views;
    View(weights + ".weight", views.weight, views.weight_gradient);
    View(layer.name + ".bias", views.bias, views.bias_gradient);
    View(layer.name + ".running_mean", views.running_mean, views.measured_mean);
    View(layer.name + ".running_var", views.running_variance, views.measured_variance);
    for (const model::PluginParameter& parameter : layer.plugin_parameters) {
      View(absl::StrCat(layer.name, ".", parameter.name), views.plugin.emplace_back(),
           views.plugin_gradients.emplace_back());
    }
    return views;
  }

 private:
  void View(const std::string& name, const float*& values, float*& gradient) const {
    const auto found = std::find_if(layout_.parameters.begin(), layout_.parameters.end(),
                                    [&](const Parameter& p) { return p.name == name; });
    if (found == layout_.parameters.end()) return;
    values = values_.data() + found->offset;
    gradient = gradients_.data() + found->offset;
  }

  const ParameterLayout layout_;
  const absl::Span<const float> values_;
  const absl::Span<float> gradients_;
};

template <typename Kind>
bool IsKind(absl::Span<const model::CheckedLayer> layers, size_t i) {
  return i < layers.size() && std::holds_alternative<Kind>(layers[i].kind);
}

// Layers that take the output of layer `i`.
int ReaderCount(absl::Span<const model::CheckedLayer> layers, size_t i) {
  const auto reads = [&](const model::CheckedLayer& layer) {
    const auto* add = std::get_if<model::Add>(&layer.kind);
    return (layer.giver == static_cast<int>(i) ? 1 : 0) +
           (add != nullptr && add->layer == layers[i].name ? 1 : 0);
  };
  int count = 0;
  for (const model::CheckedLayer& layer : layers) count += reads(layer);
  return count;
}

// Whether layer `i` + 1 is a `Kind` on the same device, and the only one that takes the output of
// layer `i`.
template <typename Kind>
bool OnlyGivesTo(absl::Span<const model::CheckedLayer> layers, size_t i) {
  return IsKind<Kind>(layers, i + 1) && layers[i + 1].giver == static_cast<int>(i) &&
         layers[i + 1].device == layers[i].device && ReaderCount(layers, i) == 1;
}

int DeviceCount(absl::Span<const model::CheckedLayer> layers) {
  int last = 0;
  for (const model::CheckedLayer& layer : layers) last = std::max(last, layer.device);
  return last + 1;
}

bool IsTied(absl::Span<const model::CheckedLayer> layers, const std::string& embedding) {
  return std::any_of(layers.begin(), layers.end(), [&](const model::CheckedLayer& layer) {
    const auto* tied = std::get_if<model::TiedLinear>(&layer.kind);
    return tied != nullptr && tied->embedding == embedding;
  });
}

FusedRelu ReluAfter(absl::Span<const model::CheckedLayer> layers, size_t i) {
  const bool weighted = IsKind<model::Linear>(layers, i) || IsKind<model::Conv2d>(layers, i) ||
                        IsKind<model::Conv1d>(layers, i);
  const bool fuses =
      weighted || IsKind<model::BatchNorm>(layers, i) || IsKind<model::Add>(layers, i);
  if (!fuses || !OnlyGivesTo<model::Relu>(layers, i)) return FusedRelu::kNone;
  const bool pooled = weighted && OnlyGivesTo<model::MaxPool2d>(layers, i + 1);
  return pooled ? FusedRelu::kForward : FusedRelu::kBoth;
}

int ParameterCount(const model::CheckedLayer& layer, const ParameterViews& views) {
  if (std::holds_alternative<model::TiedLinear>(layer.kind)) return 0;
  if (std::holds_alternative<model::Plugin>(layer.kind)) {
    return static_cast<int>(
        std::count_if(layer.plugin_parameters.begin(), layer.plugin_parameters.end(),
                      [](const model::PluginParameter& p) { return p.momentum == 0; }));
  }
  return (views.weight != nullptr) + (views.bias != nullptr);
}

int64_t StatisticCount(absl::Span<const model::CheckedLayer> layers) {
  const std::vector<Parameter> all = LayOut(layers).parameters;
  return std::count_if(all.begin(), all.end(), [](const Parameter& p) { return p.is_statistic(); });
}

// Cross-entropy takes each token of a text by itself. Other losses take a sample's output as a
// whole.
int64_t RowsOf(const model::Shape& out, const Loss& loss) {
  return std::holds_alternative<CrossEntropyLoss>(loss) ? model::ElementCount(out) / out.back() : 1;
}

}  // namespace

CpuNetwork::CpuNetwork(CpuStream& cpu, absl::Span<const model::CheckedLayer> layers,
                       const NetworkOptions& options, absl::Span<const float> values,
                       absl::Span<float> gradients)
    : cpu_(cpu),
      batch_size_(options.batch_size),
      loss_(options.loss),
      rows_of_sample_(RowsOf(layers.back().out, options.loss)),
      columns_(static_cast<int>(model::ElementCount(layers.back().out) / rows_of_sample_)),
      statistic_count_(StatisticCount(layers)),
      measurements_(gradients.subspan(static_cast<size_t>(LayOut(layers).Trained().size))),
      devices_(DeviceCount(layers), cpu.threads) {
  const ParameterFinder finder(layers, values, gradients);
  input_ = MakeActivation(cpu, PlainDesc(batch_size_, layers.front().in), false);
  for (size_t i = 0; i < layers.size(); ++i) {
    const int giver = layers[i].giver;
    const size_t given = giver == model::CheckedLayer::kData ? 0 : places_.at(layers[giver].name);
    const bool pooled_relu = giver > 0 && ReluAfter(layers, giver - 1) == FusedRelu::kForward;
    const FusedRelu relu = ReluAfter(layers, i);
    const ParameterViews parameters = finder.ViewsOf(layers[i]);
    Placed placed{.device = layers[i].device, .parameters = ParameterCount(layers[i], parameters)};
    // The batch is in host memory, which all devices read.
    const bool of_data = giver == model::CheckedLayer::kData;
    const Activation home = of_data ? input_ : Read(given);
    const int from = of_data ? placed.device : layers_[given].device;
    const Activation in = Cross(home, from, placed, placed.input);
    const CpuLayerInput input = {cpu,
                                 layers[i],
                                 batch_size_,
                                 in,
                                 {.parameters = parameters,
                                  .relu = relu,
                                  .bfloat16 = options.precision == Precision::kBfloat16,
                                  .pooled_relu = pooled_relu,
                                  .tied = IsTied(layers, layers[i].name),
                                  .exchange = options.exchange,
                                  .seed = options.seed + i}};
    places_[layers[i].name] = layers_.size();
    readers_.emplace_back();
    // oneDNN wants a primitive to run on the thread that made it.
    devices_.Do(placed.device, [&] { placed.layer = MakeLayer(input, placed); });
    devices_.Finish();
    layers_.push_back(std::move(placed));
    if (relu == FusedRelu::kNone) continue;
    ++i;
    places_[layers[i].name] = layers_.size() - 1;
  }
  const Activation last = Read(layers_.size() - 1);
  const auto plain = PlainDesc(batch_size_, layers.back().out);
  output_ = std::make_unique<Formatted>(cpu, last.value, plain);
  if (last.needs_gradient()) {
    output_gradient_ = std::make_unique<Formatted>(cpu, last.gradient, plain);
  }
}

CpuNetwork::~CpuNetwork() {
  for (Placed& placed : layers_) devices_.Do(placed.device, [&placed] { placed.layer.reset(); });
  for (size_t place = 0; place < layers_.size(); ++place)
    devices_.Do(layers_[place].device, [this, place] { readers_[place].sum = {}; });
  devices_.Finish();
}

Activation CpuNetwork::Read(size_t place) {
  Activation out = layers_[place].layer->out();
  if (!out.needs_gradient()) return out;
  Readers& readers = readers_[place];
  if (!readers.own) {
    readers.own = true;
    return out;
  }
  const dnnl::memory::desc desc = out.value.get_desc();
  if (readers.more.empty()) {
    devices_.Do(layers_[place].device, [&] {
      readers.sum = dnnl::binary({{dnnl::algorithm::binary_add, desc, desc, desc}, cpu_.engine});
    });
    devices_.Finish();
  }
  out.gradient = dnnl::memory(desc, cpu_.engine);
  readers.more.push_back(out.gradient);
  return out;
}

const Activation& CpuNetwork::Cross(const Activation& home, int from, const Placed& placed,
                                    std::optional<Border>& border) const {
  if (from == placed.device) return home;
  border = {.home = home,
            .copy = MakeActivation(cpu_, home.value.get_desc(), home.needs_gradient())};
  border->copy.without_nan = home.without_nan;
  return border->copy;
}

void CpuNetwork::Border::MoveValues() const {
  const absl::Span<const float> values = Values(home.value);
  std::copy(values.begin(), values.end(), Floats(copy.value));
}

void CpuNetwork::Border::MoveGradient() const { AddGradient(/*first=*/true); }

void CpuNetwork::Border::AddGradient(bool first) const {
  if (!home.needs_gradient()) return;
  const absl::Span<const float> moved = Values(copy.gradient);
  float* const sum = Floats(home.gradient);
  if (first) {
    std::copy(moved.begin(), moved.end(), sum);
  } else {
    for (size_t i = 0; i < moved.size(); ++i) sum[i] += moved[i];
  }
}

void CpuNetwork::SumGradients(size_t place) {
  const Readers& readers = readers_[place];
  const int device = layers_[place].device;
  for (const dnnl::memory& more : readers.more) {
    devices_.Do(device, [this, place, &readers, &more] {
      const dnnl::memory& own = layers_[place].layer->out().gradient;
      cpu_.Run(readers.sum, {{DNNL_ARG_SRC_0, own}, {DNNL_ARG_SRC_1, more}, {DNNL_ARG_DST, own}});
    });
  }
  bool first = !readers.own;
  for (const size_t add : readers.adds) {
    const Placed& reader = layers_[add];
    const bool crosses = reader.source.has_value();
    devices_.Do(reader.device, [&reader, pass_first = first || crosses] {
      static_cast<CpuAdd&>(*reader.layer).PassToSource(pass_first);
    });
    if (crosses) devices_.Do(device, [&reader, first] { reader.source->AddGradient(first); });
    first = false;
  }
}

std::unique_ptr<CpuLayer> CpuNetwork::MakeLayer(const CpuLayerInput& input, Placed& placed) {
  return std::visit(Overloaded{[&](const auto& kind) { return MakeCpuLayer(kind, input); },
                               [&](const model::Add& layer) -> std::unique_ptr<CpuLayer> {
                                 const size_t source = places_.at(layer.layer);
                                 readers_[source].adds.push_back(layers_.size());
                                 const Placed& giver = layers_[source];
                                 return MakeCpuAdd(input, Cross(giver.layer->out(), giver.device,
                                                                placed, placed.source));
                               }},
                    input.layer.kind);
}

BatchResult CpuNetwork::Forward(const Batch& batch, Mode mode) {
  DP_CHECK(batch.count >= 0 && batch.count <= batch_size_);
  const absl::Span<float> input = Values(input_.value);
  DP_CHECK(batch.images.size() == input.size());
  std::copy(batch.images.begin(), batch.images.end(), input.begin());
  rows_ = batch.count * rows_of_sample_;
  loss_factor_ = batch.loss_factor;
  if (std::holds_alternative<CrossEntropyLoss>(loss_)) {
    DP_CHECK(static_cast<int64_t>(batch.labels.size()) >= rows_);
    labels_.assign(batch.labels.begin(), batch.labels.begin() + rows_);
  }
  if (HasTargets(loss_)) {
    DP_CHECK(static_cast<int64_t>(batch.targets.size()) >= rows_ * columns_);
    targets_.assign(batch.targets.begin(), batch.targets.begin() + rows_ * columns_);
  }

  for (const Placed& placed : layers_) {
    devices_.Do(placed.device, [&placed, &batch, mode] {
      if (placed.input) placed.input->MoveValues();
      if (placed.source) placed.source->MoveValues();
      placed.layer->Forward(batch, mode);
    });
  }
  devices_.Finish();
  samples_ += batch.count;
  output_->Fetch();
  const LossSum sum = SumLoss(loss_, loss_input());
  return {.loss_sum = sum.loss_sum, .correct = sum.correct, .count = batch.count};
}

void CpuNetwork::Backward(float scale, const GradientReady& ready) {
  if (output_gradient_ == nullptr) return;
  LossGradient(loss_, loss_input(), scale * loss_factor_, Values(output_gradient_->memory()));
  output_gradient_->Store();
  int next = 0;
  int complete = 0;  // on their devices; the caller's thread reports these
  const auto report = [&] {
    while (next < complete) ready(next++);
  };
  for (size_t i = layers_.size(); i-- > 0;) {
    SumGradients(i);
    const Placed& placed = layers_[i];
    devices_.Do(placed.device, [&] {
      placed.layer->Backward([&] {
        complete += placed.parameters;
        if (devices_.alone()) report();
      });
      if (placed.input) placed.input->MoveGradient();
    });
    report();
  }
  devices_.Finish();
  report();
  PassStatistics(scale, next, ready);
}

// The mean over ranks, weighted by samples, as the gradients of a mean loss are.
void CpuNetwork::PassStatistics(float scale, int next, const GradientReady& ready) {
  const float share = scale * static_cast<float>(rows_);
  for (float& measured : measurements_) measured *= share;
  for (int64_t i = 0; i < statistic_count_; ++i) ready(next++);
}

void CpuNetwork::ReadLogits(absl::Span<float> out) const {
  DP_CHECK(out.size() == logits().size());
  std::copy(logits().begin(), logits().end(), out.begin());
}

std::vector<DeviceLoad> CpuNetwork::loads() const {
  std::vector<DeviceLoad> loads;
  for (const absl::Duration busy : devices_.busy())
    loads.push_back({.samples = samples_, .busy = busy});
  return loads;
}

LossInput CpuNetwork::loss_input() const {
  return {.outputs = logits(),
          .columns = columns_,
          .rows = rows_,
          .labels = labels_,
          .targets = targets_};
}

absl::Span<const float> CpuNetwork::logits() const { return Values(output_->memory()); }

}  // namespace dp::engine

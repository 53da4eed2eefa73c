#include "base/model/shape_check.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/model/layer_fault.h"
#include "base/status.h"

namespace dp::model {
namespace {

// More elements than this in one activation or weight are a mistake: 1 GiB of floats.
constexpr int64_t kElementsMax = int64_t{1} << 28;

// Precondition: every extent is above 0.
bool TooLarge(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (extent > kElementsMax / count) return true;
    count *= extent;
  }
  return false;
}

// Checks one layer without a fault of its own against its input and the layers before it.
class Check {
 public:
  // `before`: the layers so far, which later layers may name.
  Check(std::string name, const LayerSpec& layer, const Shape& data,
        absl::Span<const CheckedLayer> before)
      : name_(std::move(name)),
        kind_(layer.kind),
        before_(before),
        giver_(layer.input.empty() ? static_cast<int>(before.size()) - 1 : PlaceOf(layer.input)),
        in_(giver_ == CheckedLayer::kData ? data : before[giver_].out) {}

  absl::StatusOr<CheckedLayer> Run() {
    DP_ASSIGN_OR_RETURN(CheckedLayer layer,
                        std::visit([this](const auto& kind) { return Fit(kind); }, kind_));
    if (TooLarge(layer.out)) {
      return Misfit(absl::StrCat("gives more than ", kElementsMax, " values a sample"));
    }
    return layer;
  }

 private:
  absl::StatusOr<CheckedLayer> Fit(Linear linear) {
    if (in_.size() > 2) return Misfit(absl::StrCat("needs a flat input, but ", Given()));
    if (linear.in != 0 && linear.in != in_.back()) {
      return Misfit(absl::StrCat("in is ", linear.in, ", but ", Given()));
    }
    linear.in = static_cast<int>(in_.back());
    if (linear.out == 0) return Misfit("out is 0 or missing; it must be above 0");
    if (TooLarge({linear.in, linear.out})) return Misfit("has too many weights");
    return Layer(linear, LastAxis(linear.out));
  }

  absl::StatusOr<CheckedLayer> Fit(const Conv2d& conv) {
    DP_RETURN_IF_ERROR(NeedImage());
    return FitConvolution(conv, {conv.kernel, conv.kernel});
  }
  absl::StatusOr<CheckedLayer> Fit(const Conv1d& conv) {
    if (in_.size() != 2) {
      const bool gray = giver_ == CheckedLayer::kData && in_.size() == 3 && in_[0] == 1;
      return Misfit(absl::StrCat("needs channels x places, but ", Given(),
                                 gray ? "; give samples of two axes as kind: arrays" : ""));
    }
    return FitConvolution(conv, {conv.kernel});
  }

  // `kernel`: the extents of the window.
  template <typename Convolution>
  absl::StatusOr<CheckedLayer> FitConvolution(Convolution conv, const Shape& kernel) {
    if (conv.in != 0 && conv.in != in_[0]) {
      return Misfit(absl::StrCat("in is ", conv.in, ", but ", Giver(), " gives ", in_[0],
                                 " channels (", ShapeText(in_), ")"));
    }
    conv.in = static_cast<int>(in_[0]);
    if (conv.in % conv.groups != 0 || conv.out % conv.groups != 0) {
      return Misfit(absl::StrCat("groups is ", conv.groups, "; it must divide the ", conv.in,
                                 " channels of the input and the ", conv.out, " of the output"));
    }
    Shape weight = {conv.out, conv.in / conv.groups};
    weight.insert(weight.end(), kernel.begin(), kernel.end());
    if (TooLarge(weight)) return Misfit("has too many weights");
    DP_ASSIGN_OR_RETURN(Shape out,
                        Slide(conv.out, {conv.kernel, conv.stride, conv.padding, conv.dilation}));
    return Layer(conv, std::move(out));
  }

  absl::StatusOr<CheckedLayer> Fit(const MaxPool2d& pool) { return FitPool(pool); }
  absl::StatusOr<CheckedLayer> Fit(const AvgPool2d& pool) { return FitPool(pool); }

  template <typename Pool>
  absl::StatusOr<CheckedLayer> FitPool(Pool pool) {
    DP_RETURN_IF_ERROR(NeedImage());
    if (pool.stride == 0) pool.stride = pool.kernel;
    DP_ASSIGN_OR_RETURN(Shape out, Slide(in_[0], {pool.kernel, pool.stride, pool.padding}));
    return Layer(pool, std::move(out));
  }

  absl::StatusOr<CheckedLayer> Fit(const AdaptiveAvgPool2d& pool) {
    DP_RETURN_IF_ERROR(NeedImage());
    return Layer(pool, {in_[0], pool.rows, pool.columns});
  }

  // Channels come first, as in torch.nn.BatchNorm1d and BatchNorm2d.
  absl::StatusOr<CheckedLayer> Fit(const BatchNorm& norm) { return Layer(norm, in_); }

  absl::StatusOr<CheckedLayer> Fit(const Embedding& embedding) {
    if (!before_.empty()) {
      return Misfit(absl::StrCat(
          "takes tokens and so must be the first layer, but it stands after ", Giver()));
    }
    if (in_.size() != 1) return Misfit(absl::StrCat("needs tokens, but ", Given()));
    if (embedding.vocabulary == 0) return Misfit("vocabulary is 0; it must be above 0");
    if (TooLarge({embedding.vocabulary, embedding.features})) return Misfit("has too many weights");
    return Layer(embedding, {in_[0], embedding.features});
  }

  absl::StatusOr<CheckedLayer> Fit(Positions positions) {
    DP_RETURN_IF_ERROR(NeedTokens());
    return Layer(positions, in_);
  }

  absl::StatusOr<CheckedLayer> Fit(const LayerNorm& norm) { return FitRows(norm); }
  absl::StatusOr<CheckedLayer> Fit(const RmsNorm& norm) { return FitRows(norm); }
  absl::StatusOr<CheckedLayer> Fit(const Softmax& softmax) { return FitRows(softmax); }

  // A function of the features of each row.
  template <typename Kind>
  absl::StatusOr<CheckedLayer> FitRows(const Kind& kind) {
    if (in_.size() > 2) return Misfit(absl::StrCat("needs a flat input, but ", Given()));
    return Layer(kind, in_);
  }

  absl::StatusOr<CheckedLayer> Fit(const CausalAttention& attention) {
    DP_RETURN_IF_ERROR(NeedHeads(attention.heads));
    return Layer(attention, LastAxis(in_[1] / 3));
  }
  absl::StatusOr<CheckedLayer> Fit(const Attention& attention) {
    DP_RETURN_IF_ERROR(NeedHeads(attention.heads));
    const int64_t of_head = in_[1] / 3 / attention.heads;
    if (attention.rotary && of_head % 2 != 0) {
      return Misfit(absl::StrCat("rotary turns pairs of features, but a head has ", of_head));
    }
    return Layer(attention, LastAxis(in_[1] / 3));
  }

  absl::StatusOr<CheckedLayer> Fit(const Add& add) {
    const Shape& source = Named(add.layer).out;
    if (source != in_) {
      return Misfit(absl::StrCat(Given(), ", but '", add.layer, "' gives ", ShapeText(source)));
    }
    return Layer(add, in_);
  }

  absl::StatusOr<CheckedLayer> Fit(const TiedLinear& tied) {
    const auto& embedding = std::get<Embedding>(Named(tied.embedding).kind);
    if (in_.back() != embedding.features) {
      return Misfit(absl::StrCat("'", tied.embedding, "' has ", embedding.features,
                                 " features, but ", Given()));
    }
    return Layer(tied, LastAxis(embedding.vocabulary));
  }

  absl::StatusOr<CheckedLayer> Fit(const Plugin& plugin) {
    if (plugin.loaded == nullptr) {
      return Misfit(absl::StrCat("its library '", plugin.library,
                                 "' is not loaded; only training jobs load plug-ins"));
    }
    // Made only to ask what it gives.
    const auto made = plugin.loaded->Make(plugin.config, {.in = in_});
    if (!made.ok()) return Misfit(made.status().message());
    CheckedLayer layer = Layer(plugin, (*made)->out());
    layer.plugin_parameters = (*made)->parameters();
    for (const PluginParameter& parameter : layer.plugin_parameters) {
      if (TooLarge(parameter.shape)) {
        return Misfit(absl::StrCat("parameter '", parameter.name, "' of ",
                                   ShapeText(parameter.shape), " has more than ", kElementsMax,
                                   " values"));
      }
    }
    return layer;
  }

  template <ElementFunction Function>
  absl::StatusOr<CheckedLayer> Fit(Function function) {
    return Layer(function, in_);
  }
  absl::StatusOr<CheckedLayer> Fit(Dropout dropout) { return Layer(dropout, in_); }
  absl::StatusOr<CheckedLayer> Fit(Flatten flatten) { return Layer(flatten, {ElementCount(in_)}); }

  // A window with the same extent along each axis behind the channels.
  struct Window {
    int64_t kernel = 1;
    int64_t stride = 1;
    int64_t padding = 0;
    int64_t dilation = 1;
  };
  // The output shape of a window that slides over the padded input.
  absl::StatusOr<Shape> Slide(int64_t channels, const Window& window) {
    const int64_t span = (window.kernel - 1) * window.dilation + 1;
    Shape out = {channels};
    for (size_t axis = 1; axis < in_.size(); ++axis) {
      const int64_t places = in_[axis] + 2 * window.padding - span;
      if (places < 0) {
        const std::string extents =
            absl::StrJoin(std::vector<int64_t>(in_.size() - 1, window.kernel), "x");
        return Misfit(
            absl::StrCat("kernel ", extents,
                         window.dilation == 1 ? "" : absl::StrCat(" of dilation ", window.dilation),
                         " with padding ", window.padding, " does not fit, as ", Given()));
      }
      out.push_back(places / window.stride + 1);
    }
    return out;
  }

  CheckedLayer Layer(LayerKind kind, Shape out) const {
    return {name_, std::move(kind), in_, std::move(out), giver_};
  }

  absl::Status NeedImage() const {
    if (in_.size() == 3) return absl::OkStatus();
    return Misfit(absl::StrCat("needs channels x rows x columns, but ", Given()));
  }

  // Queries, keys and values side by side, for so many heads.
  absl::Status NeedHeads(int64_t heads) const {
    DP_RETURN_IF_ERROR(NeedTokens());
    if (in_[1] % (3 * heads) == 0) return absl::OkStatus();
    return Misfit(absl::StrCat("needs queries, keys and values of equal size for each of ", heads,
                               " heads, but ", Given()));
  }

  absl::Status NeedTokens() const {
    if (in_.size() == 2) return absl::OkStatus();
    return Misfit(absl::StrCat("needs tokens x features, but ", Given()));
  }

  // The layer of this name, which is among those before.
  const CheckedLayer& Named(const std::string& name) const { return before_[PlaceOf(name)]; }
  int PlaceOf(const std::string& name) const {
    const auto named = absl::c_find_if(before_, [&](auto& layer) { return layer.name == name; });
    DP_CHECK(named != before_.end());
    return static_cast<int>(named - before_.begin());
  }

  Shape LastAxis(int64_t extent) const {
    Shape shape = in_;
    shape.back() = extent;
    return shape;
  }

  // "'flatten6' gives 1568 features"
  std::string Given() const {
    return absl::StrCat(Giver(), " gives ", ShapeText(in_), in_.size() == 1 ? " features" : "");
  }

  std::string Giver() const {
    if (giver_ == CheckedLayer::kData) return "the data";
    return absl::StrCat("'", before_[giver_].name, "'");
  }

  absl::Status Misfit(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("layer '", name_, "' (", KindName(kind_), "): ", what));
  }

  const std::string name_;
  const LayerKind& kind_;
  const absl::Span<const CheckedLayer> before_;
  const int giver_;
  const Shape& in_;
};

}  // namespace

std::vector<LayerSpec> WithOutputs(absl::Span<const LayerSpec> layers, int outputs) {
  std::vector<LayerSpec> specs(layers.begin(), layers.end());
  auto* last = specs.empty() ? nullptr : std::get_if<Linear>(&specs.back().kind);
  if (last != nullptr && last->out == 0) last->out = outputs;
  return specs;
}

absl::StatusOr<std::vector<CheckedLayer>> CheckShapes(absl::Span<const LayerSpec> layers,
                                                      const Shape& input) {
  if (layers.empty()) return absl::InvalidArgumentError("the model has no layers");
  if (const std::optional<LayerFault> fault = FindFault(layers))
    return absl::InvalidArgumentError(fault->what);
  if (TooLarge(input)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a sample of ", ShapeText(input), " has more than ", kElementsMax, " values"));
  }
  std::vector<CheckedLayer> checked;
  for (size_t i = 0; i < layers.size(); ++i) {
    DP_ASSIGN_OR_RETURN(CheckedLayer layer,
                        Check(NameOf(layers[i], i), layers[i], input, checked).Run());
    layer.device = layers[i].device;
    checked.push_back(std::move(layer));
  }
  return checked;
}

absl::StatusOr<std::vector<CheckedLayer>> CheckClassifier(absl::Span<const LayerSpec> layers,
                                                          const Shape& input, int classes) {
  DP_ASSIGN_OR_RETURN(std::vector<CheckedLayer> checked,
                      CheckShapes(WithOutputs(layers, classes), input));
  const CheckedLayer& last = checked.back();
  if (last.out != Shape{classes}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the last layer '", last.name, "' (", KindName(last.kind), ") gives ", ShapeText(last.out),
        last.out.size() == 1 ? " features" : "", ", but the data has ", classes, " classes"));
  }
  return checked;
}

absl::StatusOr<std::vector<CheckedLayer>> CheckLanguageModel(absl::Span<const LayerSpec> layers,
                                                             int tokens, int vocabulary) {
  std::vector<LayerSpec> specs = WithOutputs(layers, vocabulary);
  for (LayerSpec& spec : specs) {
    auto* embedding = std::get_if<Embedding>(&spec.kind);
    if (embedding != nullptr && embedding->vocabulary == 0) embedding->vocabulary = vocabulary;
  }
  if (!specs.empty() && !std::holds_alternative<Embedding>(specs.front().kind) &&
      !std::holds_alternative<Plugin>(specs.front().kind) && !FindFault(specs)) {
    return absl::InvalidArgumentError(absl::StrCat("the first layer '", NameOf(specs.front(), 0),
                                                   "' (", KindName(specs.front().kind),
                                                   ") gets tokens; it must be an embedding"));
  }
  DP_ASSIGN_OR_RETURN(std::vector<CheckedLayer> checked, CheckShapes(specs, Shape{tokens}));
  const auto* embedding = std::get_if<Embedding>(&checked.front().kind);
  if (embedding != nullptr && embedding->vocabulary < vocabulary) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer '", checked.front().name, "' (embedding): vocabulary is ",
                     embedding->vocabulary, ", but the data's tokens are 0 to ", vocabulary - 1));
  }
  const CheckedLayer& last = checked.back();
  if (last.out.size() == 2 && last.out[1] >= vocabulary) return checked;
  return absl::InvalidArgumentError(
      absl::StrCat("the last layer '", last.name, "' (", KindName(last.kind), ") gives ",
                   ShapeText(last.out), ", but there are ", tokens, " tokens of ", vocabulary,
                   " kinds: it must give ", tokens, "x", vocabulary, " or more kinds"));
}

}  // namespace dp::model

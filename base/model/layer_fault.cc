#include "base/model/layer_fault.h"

#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/overloaded.h"

namespace dp::model {
namespace {

// Initial weights that spread further than this are a mistake.
constexpr double kInitStdMax = 100;

// Checks the fields of one layer, and keeps the first that is wrong.
class FieldRanges {
 public:
  // The field's name, and "out is -1; it must be above 0". Empty if nothing is wrong.
  using Wrong = std::pair<std::string, std::string>;

  // The last layer may leave the number of its outputs to the data.
  explicit FieldRanges(bool is_last) : is_last_(is_last) {}

  Wrong Check(const LayerKind& kind) {
    std::visit(Overloaded{
                   [this](const Linear& linear) {
                     AtLeast0("in", linear.in);
                     if (!is_last_ || linear.out != 0) Above0("out", linear.out);
                     InitStd(linear.init_std);
                   },
                   [this](const Conv2d& conv) { Convolution(conv); },
                   [this](const Conv1d& conv) { Convolution(conv); },
                   [this](const MaxPool2d& pool) { Pool(pool); },
                   [this](const AvgPool2d& pool) { Pool(pool); },
                   [this](const AdaptiveAvgPool2d& pool) {
                     Above0("rows", pool.rows);
                     Above0("columns", pool.columns);
                   },
                   [this](const BatchNorm& norm) {
                     Epsilon(norm.epsilon);
                     if (norm.momentum > 0 && norm.momentum <= 1) return;
                     Fail("momentum", absl::StrCat(norm.momentum), "above 0 and at most 1");
                   },
                   [this](const RmsNorm& norm) { Epsilon(norm.epsilon); },
                   [this](const Dropout& dropout) {
                     if (dropout.p >= 0 && dropout.p < 1) return;
                     Fail("p", absl::StrCat(dropout.p), "at least 0 and below 1");
                   },
                   [this](const Embedding& embedding) {
                     AtLeast0("vocabulary", embedding.vocabulary);
                     Above0("features", embedding.features);
                     InitStd(embedding.init_std);
                   },
                   [this](const Positions& positions) { InitStd(positions.init_std); },
                   [this](const CausalAttention& attention) { Above0("heads", attention.heads); },
                   [this](const Attention& attention) { Above0("heads", attention.heads); },
                   [this](const Plugin& plugin) {
                     if (absl::StartsWith(plugin.library, "/")) return;
                     Fail("library", absl::StrCat("'", absl::Utf8SafeCEscape(plugin.library), "'"),
                          "the absolute path of a shared library on the workers' hosts");
                   },
                   []<ElementFunction Function>(const Function&) {},
                   [](const Flatten&) {},
                   [](const LayerNorm&) {},
                   [](const Softmax&) {},
                   [](const Add&) {},
                   [](const TiedLinear&) {},
               },
               kind);
    return wrong_;
  }

 private:
  // In a job file an absent number is 0.
  void Above0(const char* field, int value) {
    if (value <= 0) Fail(field, value == 0 ? "0 or missing" : absl::StrCat(value), "above 0");
  }
  void AtLeast0(const char* field, int value) {
    if (value < 0) Fail(field, absl::StrCat(value), "0 or more");
  }
  template <typename Kind>
  void Convolution(const Kind& conv) {
    AtLeast0("in", conv.in);
    Above0("out", conv.out);
    Above0("kernel", conv.kernel);
    Above0("stride", conv.stride);
    AtLeast0("padding", conv.padding);
    Above0("groups", conv.groups);
    Above0("dilation", conv.dilation);
    InitStd(conv.init_std);
  }
  // A window that holds nothing but padding would have no value.
  template <typename Kind>
  void Pool(const Kind& pool) {
    Above0("kernel", pool.kernel);
    AtLeast0("stride", pool.stride);
    AtLeast0("padding", pool.padding);
    if (pool.padding <= pool.kernel / 2) return;
    Fail("padding", absl::StrCat(pool.padding), "at most half of kernel, as in PyTorch");
  }
  void Epsilon(double epsilon) {
    if (!(epsilon > 0 && epsilon < 1)) {
      Fail("epsilon", absl::StrCat(epsilon), "above 0 and below 1");
    }
  }
  void InitStd(double std) {
    if (!(std >= 0 && std <= kInitStdMax))
      Fail("initStd", absl::StrCat(std), absl::StrCat("0 to ", kInitStdMax));
  }
  void Fail(const std::string& field, const std::string& value, const std::string& allowed) {
    if (!wrong_.first.empty()) return;
    wrong_ = {field, absl::StrCat(field, " is ", value, "; it must be ", allowed)};
  }

  const bool is_last_;
  Wrong wrong_;
};

// Checks which layers the layers name.
class References {
 public:
  // The field of the layer's reference to a layer above, and the mistake in it.
  using Wrong = std::pair<std::string, std::string>;

  Wrong Check(const LayerSpec& layer) const {
    if (!layer.input.empty()) {
      if (std::string missing = Above("input", layer.input); !missing.empty())
        return {"input", missing};
    }
    if (const auto* add = std::get_if<Add>(&layer.kind))
      return {"layer", Above("layer", add->layer)};
    if (const auto* tied = std::get_if<TiedLinear>(&layer.kind))
      return {"embedding", Tied(tied->embedding)};
    return {};
  }

  // False if the name is taken.
  bool Learn(const std::string& name, const LayerSpec& layer) {
    if (std::holds_alternative<TiedLinear>(layer.kind)) tied_ = name;
    return above_.emplace(name, &layer.kind).second;
  }

 private:
  std::string Above(const char* field, const std::string& name) const {
    if (above_.contains(name)) return "";
    return absl::StrCat(field, " is '", absl::Utf8SafeCEscape(name),
                        "'; it must be the name of a layer above");
  }
  std::string Tied(const std::string& name) const {
    std::string missing = Above("embedding", name);
    if (!missing.empty()) return missing;
    const LayerKind& kind = *above_.at(name);
    if (!std::holds_alternative<Embedding>(kind))
      return absl::StrCat("embedding is '", name, "', a layer of kind ", KindName(kind),
                          "; it must name an embedding");
    if (tied_.empty()) return "";
    return absl::StrCat("embedding is '", name, "', which '", tied_,
                        "' is tied to already; only one layer may be tied");
  }

  absl::btree_map<std::string, const LayerKind*> above_;
  std::string tied_;  // the layer that is tied to the embedding; a model has one embedding
};

// A layer whose output goes nowhere would learn nothing.
std::optional<LayerFault> FindUnread(absl::Span<const LayerSpec> layers) {
  absl::btree_set<std::string> named;
  for (const LayerSpec& layer : layers) {
    named.insert(layer.input);
    if (const auto* add = std::get_if<Add>(&layer.kind)) named.insert(add->layer);
  }
  for (size_t i = 0; i + 1 < layers.size(); ++i) {
    const std::string name = NameOf(layers[i], i);
    if (layers[i + 1].input.empty() || named.contains(name)) continue;
    return LayerFault{i, "name",
                      absl::StrCat("layer '", name, "' (", KindName(layers[i].kind),
                                   "): no layer takes its output; name it in the input or the add "
                                   "of a layer below, or leave it out")};
  }
  return std::nullopt;
}

}  // namespace

bool IsLayerName(absl::string_view name) {
  constexpr size_t kBytesMax = 128;
  return !name.empty() && name.size() <= kBytesMax && absl::c_all_of(name, [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
  });
}

std::string NameOf(const LayerSpec& layer, size_t position) {
  return layer.name.empty() ? DefaultName(layer.kind, position) : layer.name;
}

std::optional<LayerFault> FindFault(absl::Span<const LayerSpec> layers) {
  References references;
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string name = NameOf(layers[i], i);
    const auto fault = [&](std::string field, absl::string_view what) {
      return LayerFault{
          i, std::move(field),
          absl::StrCat("layer '", name, "' (", KindName(layers[i].kind), "): ", what)};
    };
    if (!IsLayerName(name)) {
      return LayerFault{i, "name",
                        absl::StrCat("layer ", i, " has the name \"", absl::Utf8SafeCEscape(name),
                                     "\"; it may be up to 128 letters, digits, '_', '-' and '.'")};
    }
    const FieldRanges::Wrong wrong = FieldRanges(i + 1 == layers.size()).Check(layers[i].kind);
    if (!wrong.first.empty()) return fault(wrong.first, wrong.second);
    const int device = layers[i].device;
    if (device < 0 || device >= kDevicesPerRankMax) {
      return fault("device", absl::StrCat("device is ", device, "; it must be 0 to ",
                                          kDevicesPerRankMax - 1));
    }
    const References::Wrong reference = references.Check(layers[i]);
    if (!reference.second.empty()) return fault(reference.first, reference.second);
    if (!references.Learn(name, layers[i])) {
      return LayerFault{i, "name",
                        absl::StrCat("two layers have the name '", name, "'; names must differ")};
    }
  }
  return FindUnread(layers);
}

}  // namespace dp::model

#include "base/model/layer_fault.h"

#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/btree_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
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

  Wrong Check(const LayerKind& kind) {
    std::visit(Overloaded{
                   [this](const Linear& linear) {
                     AtLeast0("in", linear.in);
                     Above0("out", linear.out);
                     InitStd(linear.init_std);
                   },
                   [this](const Conv2d& conv) {
                     AtLeast0("in", conv.in);
                     Above0("out", conv.out);
                     Above0("kernel", conv.kernel);
                     Above0("stride", conv.stride);
                     AtLeast0("padding", conv.padding);
                   },
                   [this](const MaxPool2d& pool) {
                     Above0("kernel", pool.kernel);
                     AtLeast0("stride", pool.stride);
                   },
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
                   []<ElementFunction Function>(const Function&) {},
                   [](const Flatten&) {},
                   [](const LayerNorm&) {},
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
  void InitStd(double std) {
    if (!(std >= 0 && std <= kInitStdMax))
      Fail("initStd", absl::StrCat(std), absl::StrCat("0 to ", kInitStdMax));
  }
  void Fail(const std::string& field, const std::string& value, const std::string& allowed) {
    if (!wrong_.first.empty()) return;
    wrong_ = {field, absl::StrCat(field, " is ", value, "; it must be ", allowed)};
  }

  Wrong wrong_;
};

// Checks which layers the layers name.
class References {
 public:
  // The mistake in the layer's reference to a layer above; empty if there is none.
  std::string Check(const LayerSpec& layer) const {
    if (const auto* add = std::get_if<Add>(&layer.kind)) return Above("layer", add->layer);
    const auto* tied = std::get_if<TiedLinear>(&layer.kind);
    return tied == nullptr ? "" : Tied(tied->embedding);
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
    const FieldRanges::Wrong wrong = FieldRanges().Check(layers[i].kind);
    if (!wrong.first.empty()) return fault(wrong.first, wrong.second);
    const std::string reference = references.Check(layers[i]);
    const bool tied = std::holds_alternative<TiedLinear>(layers[i].kind);
    if (!reference.empty()) return fault(tied ? "embedding" : "layer", reference);
    if (!references.Learn(name, layers[i])) {
      return LayerFault{i, "name",
                        absl::StrCat("two layers have the name '", name, "'; names must differ")};
    }
  }
  return std::nullopt;
}

}  // namespace dp::model

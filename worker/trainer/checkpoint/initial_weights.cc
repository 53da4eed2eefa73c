#include "worker/trainer/checkpoint/initial_weights.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/program/log.h"
#include "base/status.h"
#include "proto/weights/elements.h"
#include "worker/trainer/checkpoint/durable_file.h"

namespace dp::trainer {
namespace {

using engine::Parameter;
using Tensors = std::map<std::string, EncodedTensor>;

// More than any model that fits into a host's memory; a larger file is a mistake.
constexpr int64_t kFileBytesMax = int64_t{1} << 38;

// Names in a message; a file may have thousands.
constexpr size_t kNamesShown = 4;

bool Matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

model::Shape Reversed(model::Shape shape) {
  std::reverse(shape.begin(), shape.end());
  return shape;
}

// Linear layers that Hugging Face's GPT-2 keeps as inputs x outputs.
bool IsGpt2Matrix(absl::string_view name) {
  return absl::EndsWith(name, "c_attn.weight") || absl::EndsWith(name, "c_proj.weight") ||
         absl::EndsWith(name, "c_fc.weight");
}

class WeightsReader {
 public:
  // `remedy` ends the error of a tensor that is missing or does not fit; it outlives the reader.
  WeightsReader(const Tensors& tensors, absl::Span<const std::string> drawn,
                absl::Span<const model::CheckedLayer> layers, absl::string_view remedy)
      : tensors_(tensors), layout_(engine::LayOut(layers)), remedy_(remedy) {
    std::vector<bool> matched(drawn.size());
    for (const Parameter& p : layout_.parameters) {
      bool is_drawn = false;
      for (size_t i = 0; i < drawn.size(); ++i) {
        if (!Matches(drawn[i], p.name)) continue;
        is_drawn = true;
        matched[i] = true;
      }
      if (!is_drawn) wanted_.push_back(&p);
    }
    const auto unmatched = absl::c_find(matched, false);
    if (unmatched != matched.end()) unmatched_ = drawn[unmatched - matched.begin()];
    for (const model::CheckedLayer& layer : layers) {
      if (std::holds_alternative<model::Positions>(layer.kind)) positions_ = layer.name + ".weight";
    }
  }

  absl::StatusOr<std::string> ReadInto(absl::Span<float> values) {
    if (unmatched_) return MatchesNone(*unmatched_);
    if (wanted_.empty()) {
      return absl::InvalidArgumentError(
          "train.init.drawn matches every tensor of the model, so nothing is left to read; name "
          "fewer, or leave train.init out");
    }
    prefix_ = FindPrefix();
    transposed_ = absl::c_any_of(wanted_, [this](const Parameter* p) {
      const EncodedTensor* tensor = Find(*p);
      return tensor != nullptr && IsGpt2Matrix(p->name) && tensor->shape != p->shape &&
             tensor->shape == Reversed(p->shape);
    });
    for (const Parameter* p : wanted_) DP_RETURN_IF_ERROR(Read(*p, values));
    return Beyond();
  }

 private:
  absl::Status MatchesNone(const std::string& pattern) const {
    std::vector<std::string> names;
    for (const Parameter& p : layout_.parameters) names.push_back(p.name);
    return absl::InvalidArgumentError(
        absl::StrCat("train.init.drawn has '", absl::Utf8SafeCEscape(pattern),
                     "', which matches no tensor of the model; it has ", SomeNames(names)));
  }

  const EncodedTensor* Find(const Parameter& p) const {
    const auto found = tensors_.find(prefix_ + p.name);
    return found == tensors_.end() ? nullptr : &found->second;
  }

  // The text before the first name of the model in the file's names. If there are several, the one
  // with which most names are found.
  std::string FindPrefix() const {
    std::string best;
    int64_t most = -1;
    const std::string& first = wanted_.front()->name;
    for (const auto& [name, tensor] : tensors_) {
      if (!absl::EndsWith(name, first)) continue;
      const std::string prefix = name.substr(0, name.size() - first.size());
      if (!prefix.empty() && prefix.back() != '.') continue;
      const int64_t found = absl::c_count_if(
          wanted_, [&](const Parameter* p) { return tensors_.contains(prefix + p->name); });
      if (found <= most) continue;
      most = found;
      best = prefix;
    }
    return best;
  }

  absl::Status Read(const Parameter& p, absl::Span<float> values) const {
    const EncodedTensor* tensor = Find(p);
    if (tensor == nullptr) return Missing(p);
    if (!HasFloats(*tensor)) {
      return Wrong(p,
                   absl::StrCat("is of type ", tensor->type, "; F32, F64, F16 and BF16 are read"));
    }
    const bool transposed = transposed_ && IsGpt2Matrix(p.name);
    if (tensor->shape != (transposed ? Reversed(p.shape) : p.shape) && !HasMoreRows(*tensor, p)) {
      return Wrong(p, absl::StrCat("is ", model::ShapeText(tensor->shape), ", but the model's is ",
                                   model::ShapeText(p.shape)));
    }
    if (tensor->type == "F32" && !transposed) {
      std::memcpy(&values[static_cast<size_t>(p.offset)], tensor->data.data(),
                  static_cast<size_t>(p.size) * sizeof(float));
      return absl::OkStatus();
    }
    const int64_t rows = p.shape.front(), columns = p.size / rows;
    for (int64_t i = 0; i < p.size; ++i) {
      const int64_t from = transposed ? i % columns * rows + i / columns : i;
      values[static_cast<size_t>(p.offset + i)] = static_cast<float>(NumberAt(*tensor, from));
    }
    return absl::OkStatus();
  }

  // A layer of positions may be longer in the file.
  bool HasMoreRows(const EncodedTensor& tensor, const Parameter& p) const {
    return p.name == positions_ && tensor.shape.size() == 2 && tensor.shape[0] > p.shape[0] &&
           tensor.shape[1] == p.shape[1];
  }

  absl::Status Wrong(const Parameter& p, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", prefix_, p.name, "' ", what, "; ", remedy_));
  }

  absl::Status Missing(const Parameter& p) const {
    return absl::InvalidArgumentError(absl::StrCat("there is no tensor '", prefix_, p.name,
                                                   "'; the file has ", SomeNames(AllNames()), "; ",
                                                   remedy_));
  }

  std::vector<std::string> AllNames() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }

  static std::string SomeNames(std::vector<std::string> names) {
    if (names.empty()) return "none";
    const size_t left_out = names.size() - std::min(names.size(), kNamesShown);
    names.resize(names.size() - left_out);
    const std::string shown = absl::StrJoin(names, ", ");
    return left_out == 0 ? shown : absl::StrCat(shown, " and ", left_out, " more");
  }

  std::string Beyond() const {
    std::vector<std::string> beyond;
    for (const auto& [name, tensor] : tensors_) {
      const bool taken = absl::c_any_of(
          wanted_, [&, &each = name](const Parameter* p) { return each == prefix_ + p->name; });
      if (!taken) beyond.push_back(name);
    }
    const std::string taken =
        absl::StrCat(wanted_.size(), wanted_.size() == 1 ? " tensor" : " tensors");
    if (beyond.empty()) return taken;
    return absl::StrCat(taken, "; not taken: ", SomeNames(std::move(beyond)));
  }

  const Tensors& tensors_;
  const engine::ParameterLayout layout_;
  const absl::string_view remedy_;
  std::vector<const Parameter*> wanted_;
  std::optional<std::string> unmatched_;  // a pattern that matches no tensor of the model
  std::string positions_;  // the tensor of the layer of positions; a model has at most one
  std::string prefix_;
  bool transposed_ = false;
};

}  // namespace

absl::StatusOr<std::string> TakeInitialWeights(absl::string_view encoded,
                                               absl::Span<const std::string> drawn,
                                               absl::Span<const model::CheckedLayer> layers,
                                               absl::Span<float> values) {
  DP_ASSIGN_OR_RETURN(const Tensors tensors, DecodeSafetensors(encoded));
  return WeightsReader(tensors, drawn, layers, "to draw it instead, name it in train.init.drawn")
      .ReadInto(values);
}

absl::Status TakeTrainedWeights(const Tensors& tensors,
                                absl::Span<const model::CheckedLayer> layers,
                                absl::Span<float> values) {
  return WeightsReader(tensors, {}, layers,
                       "the weights are of another model; give the job file of theirs")
      .ReadInto(values)
      .status();
}

absl::StatusOr<std::vector<float>> ReadInitialWeights(
    const InitialWeights& init, uint64_t seed, absl::Span<const model::CheckedLayer> layers) {
  if (init.path.empty()) return std::vector<float>();
  const auto blame = [&](const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat("train.init.weights: ", init.path, ": ", status.message()));
  };
  const absl::StatusOr<std::string> encoded = ReadWholeFile(init.path, kFileBytesMax);
  if (!encoded.ok()) return blame(encoded.status());
  const engine::ParameterLayout layout = engine::LayOut(layers);
  std::vector<float> values(static_cast<size_t>(layout.size));
  engine::Initialize(layout, seed, absl::MakeSpan(values));
  const absl::StatusOr<std::string> taken =
      TakeInitialWeights(*encoded, init.drawn, layers, absl::MakeSpan(values));
  if (!taken.ok()) return blame(taken.status());
  Log(Severity::kInfo, "initial_weights", {{"file", init.path}, {"taken", *taken}});
  return values;
}

}  // namespace dp::trainer

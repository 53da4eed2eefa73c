#pragma once

#include <concepts>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp::model {

// A model as its owner writes it: a list of layers, plain values. Each field means the same as in
// the message of that name in proto/dp/v1/job_spec.proto. 0 for `in` or a pooling stride takes the
// value that follows from the shapes (CheckShapes fills it in). kName is the kind as job
// files name it.

struct Linear {
  static constexpr absl::string_view kName = "linear";
  int in = 0;
  int out = 0;
  bool bias = true;
  double init_std = 0;
};

struct Conv2d {
  static constexpr absl::string_view kName = "conv2d";
  int in = 0;
  int out = 0;
  int kernel = 0;
  int stride = 1;
  int padding = 0;
  bool bias = true;
};

struct Relu {
  static constexpr absl::string_view kName = "relu";
};

struct MaxPool2d {
  static constexpr absl::string_view kName = "maxPool2d";
  int kernel = 0;
  int stride = 0;
};

struct Flatten {
  static constexpr absl::string_view kName = "flatten";
};

struct Dropout {
  static constexpr absl::string_view kName = "dropout";
  double p = 0;
};

struct Embedding {
  static constexpr absl::string_view kName = "embedding";
  int vocabulary = 0;  // 0: the data's
  int features = 0;
  double init_std = 1;
};

struct Positions {
  static constexpr absl::string_view kName = "positions";
  double init_std = 1;
};

struct LayerNorm {
  static constexpr absl::string_view kName = "layerNorm";
};

struct Gelu {
  static constexpr absl::string_view kName = "gelu";
};

struct CausalAttention {
  static constexpr absl::string_view kName = "causalAttention";
  int heads = 0;
};

struct Add {
  static constexpr absl::string_view kName = "add";
  std::string layer;
};

struct TiedLinear {
  static constexpr absl::string_view kName = "tiedLinear";
  std::string embedding;
};

using LayerKind = std::variant<Linear, Conv2d, Relu, MaxPool2d, Flatten, Dropout, Embedding,
                               Positions, LayerNorm, Gelu, CausalAttention, Add, TiedLinear>;

// The layers that apply a function to each value: the output has the shape of the input.
template <typename Kind>
concept ElementFunction = std::same_as<Kind, Relu> || std::same_as<Kind, Gelu>;

struct LayerSpec {
  std::string name;  // empty: DefaultName
  LayerKind kind;
};

inline absl::string_view KindName(const LayerKind& kind) {
  return std::visit([](const auto& layer) { return layer.kName; }, kind);
}

// The name of a layer that is given none: its kind in snake_case and its position in the model, as
// "conv2d0" or "layer_norm2". Weight files and checkpoints contain these names, so they never
// change.
std::string DefaultName(const LayerKind& kind, size_t position);

// Classifiers of 1x28x28 images into 10 classes.
std::vector<LayerSpec> MlpPreset();
std::vector<LayerSpec> CnnPreset();

// A GPT-2 of this size: pre-norm blocks, GELU, output layer tied to the embedding, and GPT-2's
// initial values. Layers have the names in GPT-2's own weight files: "wte", "h.0.attn.c_attn".
struct GptSize {
  int blocks = 0;
  int heads = 0;
  int features = 0;
  int vocabulary = 0;  // 0: the data's
};
std::vector<LayerSpec> Gpt(const GptSize& size);

// Errors: NotFound names the available presets.
absl::StatusOr<std::vector<LayerSpec>> Preset(absl::string_view name);

}  // namespace dp::model

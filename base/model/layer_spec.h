#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp::model {

// A model as its owner writes it: a list of layers, plain values. Each field means the same as in
// the message of that name in proto/dp/v1/job_spec.proto. 0 for `in` or a pooling stride takes the
// value that follows from the shapes (CheckShapes fills it in).

struct Linear {
  int in = 0;
  int out = 0;
  bool bias = true;
  double init_std = 0;
};

struct Conv2d {
  int in = 0;
  int out = 0;
  int kernel = 0;
  int stride = 1;
  int padding = 0;
  bool bias = true;
};

struct Relu {};

struct MaxPool2d {
  int kernel = 0;
  int stride = 0;
};

struct Flatten {};

struct Dropout {
  double p = 0;
};

struct Embedding {
  int vocabulary = 0;  // 0: the data's
  int features = 0;
  double init_std = 1;
};

struct Positions {
  double init_std = 1;
};

struct LayerNorm {};

struct Gelu {};

struct CausalAttention {
  int heads = 0;
};

struct Add {
  std::string layer;
};

struct TiedLinear {
  std::string embedding;
};

using LayerKind = std::variant<Linear, Conv2d, Relu, MaxPool2d, Flatten, Dropout, Embedding,
                               Positions, LayerNorm, Gelu, CausalAttention, Add, TiedLinear>;

struct LayerSpec {
  std::string name;  // empty: kind and position in the model, such as "conv2d0"
  LayerKind kind;
};

// The kind as job files name it, in snake_case: "linear", "max_pool2d", "causal_attention".
absl::string_view KindName(const LayerKind& kind);

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

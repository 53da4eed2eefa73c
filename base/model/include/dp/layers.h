#pragma once

#include <concepts>
#include <string>
#include <variant>

// A model as its owner writes it: a list of layers, plain values. docs/job-file.md defines the
// layers, and their fields have the same names and defaults there. 0 for `in`, a pooling stride or
// a vocabulary takes the value that follows from the shapes or the data. kName is the kind as job
// files name it. Part of dp's tree and of the installed library.

namespace dp::model {

struct Linear {
  static constexpr const char* kName = "linear";
  int in = 0;
  int out = 0;
  bool bias = true;
  double init_std = 0;
};

struct Conv2d {
  static constexpr const char* kName = "conv2d";
  int in = 0;
  int out = 0;
  int kernel = 0;
  int stride = 1;
  int padding = 0;
  bool bias = true;
};

struct Relu {
  static constexpr const char* kName = "relu";
};

struct MaxPool2d {
  static constexpr const char* kName = "maxPool2d";
  int kernel = 0;
  int stride = 0;
};

struct Flatten {
  static constexpr const char* kName = "flatten";
};

struct Dropout {
  static constexpr const char* kName = "dropout";
  double p = 0;
};

struct Embedding {
  static constexpr const char* kName = "embedding";
  int vocabulary = 0;  // 0: the data's
  int features = 0;
  double init_std = 1;
};

struct Positions {
  static constexpr const char* kName = "positions";
  double init_std = 1;
};

struct LayerNorm {
  static constexpr const char* kName = "layerNorm";
};

struct Gelu {
  static constexpr const char* kName = "gelu";
};

struct CausalAttention {
  static constexpr const char* kName = "causalAttention";
  int heads = 0;
};

struct Add {
  static constexpr const char* kName = "add";
  std::string layer;
};

struct TiedLinear {
  static constexpr const char* kName = "tiedLinear";
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

}  // namespace dp::model

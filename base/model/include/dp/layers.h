#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <variant>
#include <vector>

// A model as its owner writes it: a list of layers, plain values. docs/job-file.md defines the
// layers, and their fields have the same names and defaults there. 0 means
// the value that follows from the shapes or the data. It does so for `in`, a pooling stride, a
// vocabulary, and the outputs of the last layer. kName is the kind as job files name it. Part of
// dp's tree and of the installed library.

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
  int groups = 1;
  int dilation = 1;
  double init_std = 0;
};

struct Conv1d {
  static constexpr const char* kName = "conv1d";
  int in = 0;
  int out = 0;
  int kernel = 0;
  int stride = 1;
  int padding = 0;
  bool bias = true;
  int groups = 1;
  int dilation = 1;
  double init_std = 0;
};

struct Relu {
  static constexpr const char* kName = "relu";
};

struct MaxPool2d {
  static constexpr const char* kName = "maxPool2d";
  int kernel = 0;
  int stride = 0;
  int padding = 0;
};

struct AvgPool2d {
  static constexpr const char* kName = "avgPool2d";
  int kernel = 0;
  int stride = 0;
  int padding = 0;
};

struct AdaptiveAvgPool2d {
  static constexpr const char* kName = "adaptiveAvgPool2d";
  int rows = 1;
  int columns = 1;
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

struct RmsNorm {
  static constexpr const char* kName = "rmsNorm";
  double epsilon = 1e-6;
};

struct BatchNorm {
  static constexpr const char* kName = "batchNorm";
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool sync = false;  // mean and variance of the samples of all ranks; in jobs only
};

struct Gelu {
  static constexpr const char* kName = "gelu";
  bool exact = false;
};

struct Silu {
  static constexpr const char* kName = "silu";
};

struct Tanh {
  static constexpr const char* kName = "tanh";
};

struct Sigmoid {
  static constexpr const char* kName = "sigmoid";
};

struct Softmax {
  static constexpr const char* kName = "softmax";
};

struct CausalAttention {
  static constexpr const char* kName = "causalAttention";
  int heads = 0;
};

struct Attention {
  static constexpr const char* kName = "attention";
  int heads = 0;
  bool causal = false;
  bool rotary = false;
};

struct Add {
  static constexpr const char* kName = "add";
  std::string layer;
};

struct TiedLinear {
  static constexpr const char* kName = "tiedLinear";
  std::string embedding;
};

// One value of a plug-in's config. Lists and mappings are values too, followed by their own ones.
struct PluginValue {
  enum class Type { kNull, kFlag, kNumber, kText, kList, kMapping };
  std::string path;  // "scale", "widths[0]", "init.std"
  Type type = Type::kNull;
  double number = 0;  // the number; a flag's 0 or 1; the length of a list or mapping
  std::string text = {};
};

class PluginKind;

// A layer of a user's library (docs/plugins.md).
struct Plugin {
  static constexpr const char* kName = "plugin";
  std::string library;                       // an absolute path
  std::string layer;                         // as the library names it; empty: its only one
  std::vector<PluginValue> config;           // in the order of paths
  std::shared_ptr<const PluginKind> loaded;  // the layer's code; null where it is not loaded
};

using LayerKind =
    std::variant<Linear, Conv2d, Relu, MaxPool2d, Flatten, Dropout, Embedding, Positions, LayerNorm,
                 Gelu, CausalAttention, Add, TiedLinear, Conv1d, AvgPool2d, AdaptiveAvgPool2d,
                 RmsNorm, BatchNorm, Silu, Tanh, Sigmoid, Softmax, Attention, Plugin>;

// The layers that apply a function to each value: the output has the shape of the input.
template <typename Kind>
concept ElementFunction = std::same_as<Kind, Relu> || std::same_as<Kind, Gelu> ||
    std::same_as<Kind, Silu> || std::same_as<Kind, Tanh> || std::same_as<Kind, Sigmoid>;

struct LayerSpec {
  std::string name;  // empty: DefaultName
  LayerKind kind;
  std::string input = {};  // the layer above whose output it takes; empty: the layer before
  int device = 0;          // of those on which the model's layers are placed
};

}  // namespace dp::model

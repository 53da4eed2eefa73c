#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp::model {

// A model as its owner writes it: a list of layers, plain values. The meaning of each field is that
// of the message of the same name in proto/dp/v1/job_spec.proto; 0 for `in` or a pooling stride
// means "take what follows from the shapes" (CheckShapes fills it in).

struct Linear {
  int in = 0;
  int out = 0;
  bool bias = true;
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

using LayerKind = std::variant<Linear, Conv2d, Relu, MaxPool2d, Flatten, Dropout>;

struct LayerSpec {
  std::string name;  // empty: the kind and the position in the model, as "conv2d0"
  LayerKind kind;
};

// "linear", "conv2d", "relu", "max_pool2d", "flatten" or "dropout", as job files name them.
absl::string_view KindName(const LayerKind& kind);

// Classifiers of 1x28x28 images into 10 classes.
std::vector<LayerSpec> MlpPreset();
std::vector<LayerSpec> CnnPreset();

// Errors: NotFound names the presets there are.
absl::StatusOr<std::vector<LayerSpec>> Preset(absl::string_view name);

}  // namespace dp::model

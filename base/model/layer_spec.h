#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/model/include/dp/layers.h"

namespace dp::model {

inline absl::string_view KindName(const LayerKind& kind) {
  return std::visit([](const auto& layer) { return layer.kName; }, kind);
}

// The name of a layer that is given none: its kind in snake_case and its position in the model, as
// "conv2d0" or "layer_norm2". Weight files and checkpoints contain these names, so they never
// change.
std::string DefaultName(const LayerKind& kind, size_t position);

// Classifiers of images of any size, made for 1x28x28, into the data's classes.
std::vector<LayerSpec> MlpPreset();
std::vector<LayerSpec> CnnPreset();

// A residual network (He et al. 2015) as torchvision has it: layers have its names, such as
// "layer1.0.conv1", and convolutions its initial values, normal by the outputs that each input
// reaches. Bottleneck blocks have their stride in the 3x3 convolution.
struct ResNetSize {
  std::vector<int> blocks;    // of each stage; a stage after the first halves rows and columns
  bool bottleneck = false;    // three convolutions a block; else two
  bool small_images = false;  // begins with a 3x3 convolution and no pooling, for 32x32 images
};
std::vector<LayerSpec> ResNet(const ResNetSize& size);

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

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

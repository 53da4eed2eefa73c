#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/model/layer_spec.h"
#include "base/model/plugin_layer.h"
#include "base/model/shape.h"

namespace dp::model {

// A layer whose shapes fit, with all defaults filled in.
struct CheckedLayer {
  std::string name;
  LayerKind kind;
  Shape in;
  Shape out;
  int giver = kData;  // position of the layer whose output it takes, or kData
  int device = 0;     // as LayerSpec::device
  std::vector<PluginParameter> plugin_parameters = {};  // of a plug-in's layer

  static constexpr int kData = -1;
};

// Infers the shape of every layer of a model whose input has the shape `input`, of extents above 0.
// Plug-ins must be loaded: their code says what they give.
// Errors: InvalidArgument the sample is too large, or the fault of a layer (layer_fault.h). Without
// a fault, the layer, its kind, both shapes and the mismatch: "layer 'linear7' (linear): in is 100,
// but 'flatten6' gives 1568 features".
absl::StatusOr<std::vector<CheckedLayer>> CheckShapes(absl::Span<const LayerSpec> layers,
                                                      const Shape& input);

// The layers, with so many outputs of a linear layer at the end that leaves them open.
std::vector<LayerSpec> WithOutputs(absl::Span<const LayerSpec> layers, int outputs);

// As CheckShapes; the model must also end in one value for each of `classes`. A linear layer at the
// end takes this number where it has none.
absl::StatusOr<std::vector<CheckedLayer>> CheckClassifier(absl::Span<const LayerSpec> layers,
                                                          const Shape& input, int classes);

// As CheckShapes, for samples of `tokens` tokens, each below `vocabulary`. The model must begin
// with an embedding or a plug-in and end, at every token, in one value for each possible next
// token. The model may know more tokens than the data has. An embedding without a vocabulary takes
// the data's, and so does a linear layer at the end. A first layer of another kind is an error
// before any misfit.
absl::StatusOr<std::vector<CheckedLayer>> CheckLanguageModel(absl::Span<const LayerSpec> layers,
                                                             int tokens, int vocabulary);

}  // namespace dp::model

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/model/layer_spec.h"
#include "base/model/shape.h"

namespace dp::model {

// A layer whose shapes are known to fit: nothing is left to defaults.
struct CheckedLayer {
  std::string name;
  LayerKind kind;
  Shape in;
  Shape out;
};

// Whether a layer may have this name: up to 128 letters, digits, '_', '-' and '.', as it stands in
// logs, metrics and weight files.
bool IsLayerName(absl::string_view name);
inline constexpr char kLayerNameRule[] = "up to 128 letters, digits, '_', '-' and '.'";

// Infers the shape of every layer of a model whose input has the shape `input`.
// Errors: InvalidArgument names the layer, its kind, both shapes and what does not fit, as in
// "layer 'linear7' (linear): in is 100, but 'flatten6' gives 1568 features".
absl::StatusOr<std::vector<CheckedLayer>> CheckShapes(absl::Span<const LayerSpec> layers,
                                                      const Shape& input);

// CheckShapes, and the model must end in one value for each of `classes`.
absl::StatusOr<std::vector<CheckedLayer>> CheckClassifier(absl::Span<const LayerSpec> layers,
                                                          const Shape& input, int classes);

// CheckShapes for samples of `tokens` tokens, each below `vocabulary`: the model must begin with an
// embedding and end in one value for each token that may come next, at every token. It may know
// more tokens than the data has; an embedding that leaves its vocabulary open takes the data's.
absl::StatusOr<std::vector<CheckedLayer>> CheckLanguageModel(absl::Span<const LayerSpec> layers,
                                                             int tokens, int vocabulary);

}  // namespace dp::model

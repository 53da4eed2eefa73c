#pragma once

#include <string>
#include <vector>

#include "base/model/layer_spec.h"
#include "base/model/shape.h"
#include "worker/engine/nn/loss.h"

namespace dp::engine {

// The cases that the suites try on every device. docs/conformance.md lists them by these names.

// A small model around one kind or setting of a layer. A linear layer at the end has the data's
// outputs.
struct LayerCase {
  std::string name;
  std::vector<model::LayerSpec> layers;
  model::Shape in;
  bool of_tokens = false;  // `in` is not used then
};
std::vector<LayerCase> LayerCases();

struct LossCase {
  std::string name;
  Loss loss;
};
std::vector<LossCase> LossCases();

}  // namespace dp::engine

#include <utility>

#include "dp/engine.h"
#include "worker/library/engine/compiled_model.h"
#include "worker/library/engine/engine_error.h"

namespace dp::distributed {

using library::ValueOrThrow;

Network::Network(const std::vector<model::LayerSpec>& layers, const NetworkOptions& options)
    : compiled_(ValueOrThrow(library::CompiledModel::Make(layers, options))) {}

Network::~Network() = default;

std::vector<Parameter> Network::parameters() { return compiled_->parameters(); }

bool Network::move_gradient(size_t index, MutableElements memory) {
  library::OkOrThrow(compiled_->MoveGradient(index, memory));
  return true;
}

Score Network::forward(std::span<const float> inputs, std::span<const int32_t> labels) {
  return ValueOrThrow(compiled_->Forward(inputs, labels, engine::Mode::kTrain));
}

void Network::backward(const std::function<void(size_t parameter)>& ready, double scale) {
  library::OkOrThrow(compiled_->Backward(ready, scale));
}

void Network::zero_grad() { compiled_->ZeroGradients(); }

Score Network::evaluate(std::span<const float> inputs, std::span<const int32_t> labels) {
  return ValueOrThrow(compiled_->Forward(inputs, labels, engine::Mode::kEvaluate));
}

std::vector<float> Network::predict(std::span<const float> inputs) {
  return ValueOrThrow(compiled_->Predict(inputs));
}

int Network::classes() const { return compiled_->classes(); }

}  // namespace dp::distributed

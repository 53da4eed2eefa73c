#pragma once

#include "base/model/layer_spec.h"

// The engine's names for the model as its owner writes it.

namespace dp::engine {

using model::CnnPreset;
using model::Conv2d;
using model::Dropout;
using model::Flatten;
using model::KindName;
using model::LayerKind;
using model::LayerSpec;
using model::Linear;
using model::MaxPool2d;
using model::MlpPreset;
using model::Preset;
using model::Relu;

}  // namespace dp::engine

#pragma once

#include "base/model/shape_check.h"
#include "worker/engine/nn/layer_spec.h"
#include "worker/engine/nn/shape.h"

namespace dp::engine {

using model::CheckClassifier;
using model::CheckedLayer;
using model::CheckShapes;

}  // namespace dp::engine

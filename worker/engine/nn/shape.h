#pragma once

#include "base/model/shape.h"

namespace dp::engine {

using model::ElementCount;
using model::Shape;
using model::ShapeText;

}  // namespace dp::engine

#pragma once

#include "worker/engine/collectives/reduce/elements.h"

namespace dp::engine {

// Writes each of `from` to `to` as the nearest float of its type, ties to even. The arrays have as
// many elements, are of floats, and do not overlap.
void Convert(ConstElements from, Elements to);

}  // namespace dp::engine

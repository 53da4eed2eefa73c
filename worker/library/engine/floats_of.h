#pragma once

#include <span>

#include "dp/elements.h"

namespace dp::library {

// The elements as an array of floats, which they are.
inline std::span<float> FloatsOf(const distributed::MutableElements& elements) {
  return {static_cast<float*>(elements.data), elements.count};
}

}  // namespace dp::library

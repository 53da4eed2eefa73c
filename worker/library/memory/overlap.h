#pragma once

#include <cstdint>
#include <functional>

#include "dp/elements.h"

namespace dp::library {

// Whether the arrays share memory.
inline bool Overlap(const distributed::Elements& a, const distributed::Elements& b) {
  if (a.bytes == 0 || b.bytes == 0) return false;
  const auto* const first = static_cast<const uint8_t*>(a.data);
  const auto* const second = static_cast<const uint8_t*>(b.data);
  const std::less<const uint8_t*> before;
  return before(first, second + b.bytes) && before(second, first + a.bytes);
}

}  // namespace dp::library

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"

namespace dp::model {

// Extents of a tensor, outermost first. An image has channels, rows and columns; a flat tensor has
// one extent. A text has tokens and features, its input only tokens. Activations have the shape of
// one sample, without the batch.
using Shape = std::vector<int64_t>;

inline int64_t ElementCount(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

// The form in error messages: "16x14x14".
inline std::string ShapeText(const Shape& shape) { return absl::StrJoin(shape, "x"); }

}  // namespace dp::model

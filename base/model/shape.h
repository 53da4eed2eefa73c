#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"

namespace dp::model {

// Extents of a tensor, outermost first: channels, rows, columns of an image; one extent when flat;
// tokens and features of a text, whose data is tokens alone. A shape of activations is that of one
// sample; the batch is not part of it.
using Shape = std::vector<int64_t>;

inline int64_t ElementCount(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

// As errors show it: "16x14x14".
inline std::string ShapeText(const Shape& shape) { return absl::StrJoin(shape, "x"); }

}  // namespace dp::model

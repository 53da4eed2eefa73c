#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/weights/safetensors.h"

// How two files of weights differ. Pure.

namespace dp {

struct TensorDifference {
  enum class Kind {
    kEqual,    // the same bits, type and shape
    kDiffers,  // the same shape; values or types differ
    kShape,    // other shapes, or types that cannot be compared
    kOnlyInA,
    kOnlyInB,
  };

  std::string name;
  Kind kind = Kind::kEqual;
  std::string in_a, in_b;   // type and shape, as "F32 16x3"; empty: it is not there
  double max_absolute = 0;  // |a - b|
  double max_relative = 0;  // |a - b| / max(|a|, |b|)
  int64_t differing = 0;    // elements whose values differ
};

// One for each tensor of either, by name. A NaN beside another value is infinitely far from it.
std::vector<TensorDifference> CompareTensors(const std::map<std::string, EncodedTensor>& a,
                                             const std::map<std::string, EncodedTensor>& b);

}  // namespace dp

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/model/shape.h"
#include "base/model/shape_check.h"

namespace dp::engine {

// How the values of a parameter begin.
struct Initial {
  enum class Kind { kUniform, kNormal, kConstant };
  Kind kind = Kind::kConstant;
  float scale = 0;  // uniform in (-scale, scale); standard deviation around 0; the value itself
};

// One tensor of weights or biases. Values and gradients of all parameters live in two flat arrays
// of the same layout; a parameter is the `size` floats from `offset` on, in PyTorch's order of
// axes.
struct Parameter {
  std::string name;    // "conv2d0.weight"
  model::Shape shape;  // out x in [x rows x columns], or out for a bias
  int64_t offset = 0;
  int64_t size = 0;
  int64_t fan_in = 0;  // inputs that one output is the sum of
  Initial initial;
};

// Where every parameter of a model lies. The order is that in which backward completes gradients:
// last layer first, and in a layer bias before weight, so that a bucket is a range of the flat
// array and the first bucket is ready first. Parameters start at multiples of 16 floats, a cache
// line; the gap before the next one stays zero in every array.
struct ParameterLayout {
  std::vector<Parameter> parameters;
  int64_t size = 0;  // floats in each flat array, gaps included
};

ParameterLayout LayOut(absl::Span<const model::CheckedLayer> layers);

// Fills `values` (a host array in `layout`) with each parameter's initial distribution, drawn in
// layer order, weight before bias, from one generator. By default these are PyTorch's: of linear
// layers and convolutions uniform in (-b, b), b = 1 / sqrt(fan_in). A linear layer with an initStd
// has weights that are normal with it, and biases of 0.
void Initialize(const ParameterLayout& layout, uint64_t seed, absl::Span<float> values);

}  // namespace dp::engine

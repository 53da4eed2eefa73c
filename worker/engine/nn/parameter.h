#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/model/shape.h"
#include "base/model/shape_check.h"

namespace dp::engine {

// How the values of a parameter are initialized.
struct Initial {
  enum class Kind { kUniform, kNormal, kConstant };
  Kind kind = Kind::kConstant;
  float scale = 0;  // uniform in (-scale, scale); standard deviation around 0; the value itself
};

// How an optimizer treats a parameter, beside its own options.
struct ParameterOptions {
  double learning_rate_factor = 1;
  std::optional<double> weight_decay = {};  // in place of the optimizer's; none: the optimizer's
  bool frozen = false;                      // never changes, and counts in no norm
};

// One tensor of weights or biases, or of a running statistic. The values of all parameters lie in
// one flat array, and their gradients in another one of the same layout. A parameter is the `size`
// floats from `offset` on, with its axes in PyTorch's order.
struct Parameter {
  std::string name;    // "conv2d0.weight"
  model::Shape shape;  // out x in [x rows x columns], or out for a bias
  int64_t offset = 0;
  int64_t size = 0;
  int64_t fan_in = 0;  // inputs that one output sums
  Initial initial;
  ParameterOptions options = {};
  // Above 0: a running average of what each batch has measured. Frozen for updates: its place in
  // the gradients holds the measurement (StepStatistics).
  double momentum = 0;

  bool is_statistic() const { return momentum > 0; }
};

// Where every parameter of a model lies. The order is that in which backward completes gradients:
// the last layer first, and within a layer bias before weight. A bucket is therefore a range of the
// flat array, and the first bucket is ready first. Parameters start at multiples of 16 floats, a
// cache line. The gap before the next parameter stays zero in every array. Statistics come behind
// all others, so that those are one range, too.
struct ParameterLayout {
  std::vector<Parameter> parameters;
  int64_t size = 0;  // floats in each flat array, gaps included

  // Without the statistics: what an optimizer changes.
  ParameterLayout Trained() const;
};

// Neighbouring values of a flat array.
struct ValueRange {
  int64_t first = 0;
  int64_t size = 0;
};

ParameterLayout LayOut(absl::Span<const model::CheckedLayer> layers);

// Updates each statistic of a layout from its measurement, which is the mean over the global batch
// and lies among the gradients. The formula: value = (1 - momentum) value + momentum measurement.
void StepStatistics(const ParameterLayout& layout, absl::Span<const float> gradients,
                    absl::Span<float> values);

// Initializes `values` (a host array in `layout`). Each parameter is drawn from its own
// distribution, in layer order, weight before bias, from one generator. The defaults are PyTorch's:
// linear layers and convolutions are uniform in (-b, b), b = 1 / sqrt(fan_in). A linear layer with
// an initStd has normal weights with that deviation, and biases of 0.
void Initialize(const ParameterLayout& layout, uint64_t seed, absl::Span<float> values);

}  // namespace dp::engine

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/model/shape.h"

namespace dp::engine {

// Labelled samples that can be read in any order. Immutable, so any thread may read.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual const model::Shape& sample_shape() const = 0;
  virtual int classes() const = 0;
  // Writes the samples of these numbers one after another. `images` holds at least
  // samples.size() x sample_shape, `labels` at least samples.size(); what is above stays as it is.
  virtual void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
                      absl::Span<int32_t> labels) const = 0;
};

}  // namespace dp::engine

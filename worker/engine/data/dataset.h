#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/model/shape.h"

namespace dp::engine {

// The arrays that a data set keeps in host memory, for devices that copy them. Borrowed from the
// set.
struct StoredImages {
  absl::Span<const uint8_t> images;  // sample after sample, a byte a pixel
  absl::Span<const uint8_t> labels;
  // A pixel x becomes (x / 255 - mean) / std.
  float mean = 0;
  float std = 1;
};
struct StoredTokens {
  struct File {
    absl::Span<const uint16_t> tokens;
    int64_t first_sample = 0;  // number of the file's first window; each has context + 1 tokens
  };
  std::vector<File> files;
};
using Storage = std::variant<std::monostate, StoredImages, StoredTokens>;

// Labelled samples that can be read in any order: images with one class each, or windows of a text.
// In a window, the label of each token is the token that follows. Immutable, so any thread may
// read.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual const model::Shape& sample_shape() const = 0;
  // Labels are below this.
  virtual int classes() const = 0;
  // Whether samples are tokens; their shape is then their count.
  virtual bool of_tokens() const { return false; }
  // Writes the samples of these numbers one after another, tokens as their numbers. `images` holds
  // at least samples.size() x sample_shape, `labels` at least samples.size() x labels_per_sample;
  // anything beyond stays unchanged.
  virtual void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
                      absl::Span<int32_t> labels) const = 0;

  // The arrays that Gather reads from; monostate if it reads from anything but arrays in memory.
  virtual Storage storage() const { return {}; }

  int64_t labels_per_sample() const { return of_tokens() ? sample_shape()[0] : 1; }
};

}  // namespace dp::engine

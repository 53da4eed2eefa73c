#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
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

// Samples to read, and where their values go, sample after sample. Memory beyond them stays as it
// is.
struct SampleRows {
  absl::Span<const int64_t> samples;
  uint64_t epoch = 0;          // counted from 0; augmented samples differ between epochs
  absl::Span<float> inputs;    // samples x sample_shape
  absl::Span<int32_t> labels;  // samples x labels_per_sample; unused if the set has targets
  absl::Span<float> targets;   // samples x target_shape
};

// Samples that can be read in any order. They are numbers with one class each, numbers with numbers
// to predict (targets), or windows of a text. In a window, the label of each token is the token
// that follows. Immutable, so any thread may read.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual const model::Shape& sample_shape() const = 0;
  // Labels are below this; 0 if the set has targets.
  virtual int classes() const = 0;
  // The shape of the numbers to predict for each sample. Empty if samples have labels instead.
  virtual model::Shape target_shape() const { return {}; }
  // Whether samples are tokens; their shape is then their count.
  virtual bool of_tokens() const { return false; }
  // Writes the samples of these numbers one after another, tokens as their numbers. `images` holds
  // at least samples.size() x sample_shape, `labels` at least samples.size() x labels_per_sample;
  // anything beyond stays unchanged.
  virtual void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
                      absl::Span<int32_t> labels) const = 0;

  // As Gather, with targets, and with the samples as they look in this epoch.
  // Errors: InvalidArgument names a damaged file.
  virtual absl::Status Read(const SampleRows& rows) const {
    Gather(rows.samples, rows.inputs, rows.labels);
    return absl::OkStatus();
  }

  // The arrays that Gather reads from; monostate if it reads from anything but arrays in memory.
  virtual Storage storage() const { return {}; }

  bool has_targets() const { return !target_shape().empty(); }
  int64_t labels_per_sample() const { return of_tokens() ? sample_shape()[0] : 1; }
};

}  // namespace dp::engine

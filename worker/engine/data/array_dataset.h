#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data/sample_set.h"
#include "base/data/sample_source.h"
#include "worker/engine/data/dataset.h"

namespace dp::engine {

using data::Split;

// How values of samples are scaled: x becomes (x - mean) / std, where x of bytes is divided by 255
// first. Either list has one number, or one for each channel, the first axis of a sample. Empty
// lists are 0 and 1.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> std;
};

struct ArrayDatasetOptions {
  data::SampleSource source;
  int classes = 0;  // 0: as many as the labels show
  // A label that the loss ignores, so it need not be a class.
  std::optional<int32_t> ignored_label = {};
  Normalization normalization;
};

// The number of a list that belongs to a channel.
float OfChannel(const std::vector<float>& list, int64_t channel, float fallback);

// Maps the values of a sample, whose channels lie one after another.
void Normalize(const Normalization& normalization, int64_t channels, absl::Span<float> sample);

// Errors: InvalidArgument a list of another length than the channels, or std not above 0.
absl::Status CheckNormalization(const Normalization& normalization, const model::Shape& shape);

// Samples that lie in memory or in mapped files (base/data). Bytes go through a table.
// Errors: those of ReadSamples and CheckNormalization; InvalidArgument a label that is no class
// (names its file and sample).
absl::StatusOr<std::unique_ptr<Dataset>> OpenArrayDataset(const ArrayDatasetOptions& options,
                                                          Split split);

}  // namespace dp::engine

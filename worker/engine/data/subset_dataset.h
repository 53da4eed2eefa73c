#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/data/dataset.h"

namespace dp::engine {

// The samples of one set, divided in two by their numbers.
struct SampleSplit {
  std::vector<int64_t> train;
  std::vector<int64_t> test;
};

// Keeps a share of `samples` samples for the test, at least one: the last ones of a random order.
// Both parts are in ascending order.
// Errors: InvalidArgument nothing would be left to train on.
absl::StatusOr<SampleSplit> SplitSamples(int64_t samples, double share, uint64_t seed);

// The samples of `base` that have these numbers, numbered anew from 0. Devices do not keep them.
std::unique_ptr<Dataset> MakeSubset(std::shared_ptr<const Dataset> base,
                                    std::vector<int64_t> samples);

}  // namespace dp::engine

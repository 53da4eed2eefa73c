#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/data/sample_set.h"

namespace dp::data {

enum class Cifar { k10, k100 };

// Reads CIFAR's binary files: images of 3 x 32 x 32 bytes behind their label. CIFAR-100 has two
// labels, of which the second one, the fine one, counts. `dir` holds data_batch_1.bin and so on and
// test_batch.bin, or for CIFAR-100 train.bin and test.bin.
// Errors: NotFound names the directory or the file; InvalidArgument names a file whose size is no
// multiple of a record's.
absl::StatusOr<SampleSet> ReadCifarSet(const std::string& dir, Cifar kind, Split split);

}  // namespace dp::data

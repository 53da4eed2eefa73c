#pragma once

#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "base/data/cifar_file.h"
#include "base/data/csv_file.h"
#include "base/data/npy_file.h"
#include "base/data/sample_set.h"

namespace dp::data {

// Where a set of samples lies, one struct for each format.
struct IdxSource {
  std::string dir;
};
struct CifarSource {
  std::string dir;
  Cifar kind = Cifar::k10;
};
struct ArraySource {
  ArrayFiles train;
  ArrayFiles test;
};
struct CsvSource {
  CsvFiles train;
  CsvFiles test;
};
using SampleSource = std::variant<IdxSource, CifarSource, ArraySource, CsvSource>;

// Reads the samples for training or for the test.
// Errors: those of the format's reader.
absl::StatusOr<SampleSet> ReadSamples(const SampleSource& source, Split split);

}  // namespace dp::data

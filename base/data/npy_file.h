#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/data/rows.h"
#include "base/data/sample_set.h"

namespace dp::data {

// Reads an array that NumPy wrote: a file PATH.npy, or PATH.npz#NAME for a member of an archive. A
// row is one element of the first axis. The type is a float of 32 or 64 bits, uint8, bool or a
// signed integer; the order of axes is C's.
// Errors: those of OpenFile; InvalidArgument another type or Fortran's order (with the remedy),
// damage, or a size that differs from the header's (names both).
absl::StatusOr<Rows> ReadNpy(const std::string& place);

// The files of a set: inputs, and either labels or targets.
struct ArrayFiles {
  std::string inputs;
  std::string labels;
  std::string targets;
  bool two_axes = false;  // whether inputs of two axes stay so
};

// Reads such files. Inputs of two axes become images of one channel, unless they are to stay.
// Errors: those of ReadNpy; InvalidArgument counts that differ (names both).
absl::StatusOr<SampleSet> ReadArraySet(const ArrayFiles& files);

// The inputs alone, as in such a set.
absl::StatusOr<Rows> ReadArrayInputs(const ArrayFiles& files);

// The shape of a sample in such a set.
absl::StatusOr<model::Shape> ReadArrayShape(const ArrayFiles& files);

}  // namespace dp::data

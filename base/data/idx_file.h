#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/data/rows.h"
#include "base/data/sample_set.h"

namespace dp::data {

// Reads an IDX file, the format of MNIST, of any number of axes and any type, plain or compressed
// by gzip. A row is one element of the first axis.
// Errors: those of OpenFile; InvalidArgument wrong magic number, no samples, or a size that differs
// from the header's (names both).
absl::StatusOr<Rows> ReadIdx(const std::string& path);

// Reads the samples and labels of a directory: PREFIX-images-idxN-TYPE and PREFIX-labels-idx1-TYPE,
// each plain or with .gz. PREFIX is "train" for training, "t10k" or "test" for the test. TYPE is
// ubyte, byte, short, int, float or double, and N the number of axes. Samples of rows and columns
// become images of one channel; all others have the shape of the file.
// Errors: NotFound names the directory, or the usual spellings of a file; InvalidArgument names the
// file, the place and both values.
absl::StatusOr<SampleSet> ReadIdxSet(const std::string& dir, Split split);

// The shape of a sample in such a directory, from the header of the training set alone.
absl::StatusOr<model::Shape> ReadIdxShape(const std::string& dir);
// The classes that the training set's labels show.
absl::StatusOr<int> ReadIdxClasses(const std::string& dir);

}  // namespace dp::data

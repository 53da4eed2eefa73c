#pragma once

#include <string>

#include "absl/status/status.h"

namespace dp::data {

// Writes the samples of an IDX, NPY or CSV file, or of an archive's array, to another format. The
// ending of `to` names the format: .npy, or NAME-idxN-TYPE. A text becomes 16-bit tokens where `to`
// ends in .bin, a token for each byte. The file appears when it is complete.
// Errors: those of the reader; AlreadyExists `to` is there; the system's if it cannot be written.
// InvalidArgument a name without such an ending, or another N or TYPE than the samples have.
absl::Status Convert(const std::string& from, const std::string& to);

}  // namespace dp::data

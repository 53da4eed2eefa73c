#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dp::engine {

// An array of bytes in the IDX format of MNIST.
struct IdxArray {
  std::vector<int64_t> extents;
  std::vector<uint8_t> bytes;
};

// Reads an IDX file of unsigned bytes with `rank` axes, plain or compressed by gzip.
// Errors: the system's if the file cannot be opened (NotFound, PermissionDenied); InvalidArgument
// wrong magic number, size differs from the header's (names both), bad compression.
absl::StatusOr<IdxArray> ReadIdx(const std::string& path, int rank);

}  // namespace dp::engine

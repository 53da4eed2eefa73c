#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dp::engine {

// An array of bytes as the IDX format of MNIST holds it.
struct IdxArray {
  std::vector<int64_t> extents;
  std::vector<uint8_t> bytes;
};

// Reads an IDX file of unsigned bytes with `rank` axes, plain or compressed by gzip.
// Errors: the system's where it cannot be opened (NotFound, PermissionDenied); InvalidArgument for
// another magic number, a file that is shorter or longer than its header says (both sizes are
// named), or bad compression.
absl::StatusOr<IdxArray> ReadIdx(const std::string& path, int rank);

}  // namespace dp::engine

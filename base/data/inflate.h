#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace dp::data {

enum class Compression {
  kGzip,
  kRaw,  // deflate without a header, as in ZIP archives
};

// Decompresses a stream into memory, which grows as bytes arrive. Stops after `at_least` bytes.
// Errors: InvalidArgument bad data, a stream that breaks off, or more than 16 GiB.
absl::StatusOr<std::shared_ptr<std::vector<uint8_t>>> Inflate(absl::Span<const uint8_t> bytes,
                                                              Compression compression,
                                                              size_t at_least = SIZE_MAX);

}  // namespace dp::data

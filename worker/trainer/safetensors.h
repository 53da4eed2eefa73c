#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace dp::trainer {

// One named float32 tensor, borrowed.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  absl::Span<const float> values;
};

// Encodes tensors in the safetensors format: a little-endian u64 with the length of the header, the
// header in JSON (name -> dtype, shape, offsets into the data), then the data. Same tensors, same
// bytes.
std::string EncodeSafetensors(absl::Span<const NamedTensor> tensors);

// Replaces `path` as a whole: writes a temporary file beside it, syncs it, renames it, syncs the
// directory. Errors name the path and the system's reason.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents);

// Whether `path` can be written that way, tried without touching what is there: before hours of
// work, not after. Errors as WriteFileAtomically; InvalidArgument where it is a directory.
absl::Status CheckWritable(const std::string& path);

}  // namespace dp::trainer

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace dp::trainer {

// One named float32 tensor, borrowed.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  absl::Span<const float> values;
};

// Encodes tensors in the safetensors format: a little-endian u64 with the header's length, the
// header, the data. The header is JSON: name -> dtype, shape, offsets into the data. Equal tensors
// give equal bytes.
std::string EncodeSafetensors(absl::Span<const NamedTensor> tensors);

// A tensor inside an encoding; it borrows from the encoding.
struct EncodedTensor {
  std::vector<int64_t> shape;
  absl::string_view data;  // float32, row by row, perhaps not aligned
};

// Splits an encoding into its tensors; `encoded` must outlive them. Errors: InvalidArgument an
// offset beyond the end, a hole, an overlap, or a shape that does not match its data; Unimplemented
// another type than F32.
absl::StatusOr<std::map<std::string, EncodedTensor>> DecodeSafetensors(absl::string_view encoded);

}  // namespace dp::trainer

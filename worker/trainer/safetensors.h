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

// Encodes tensors in the safetensors format: a little-endian u64 with the length of the header, the
// header in JSON (name -> dtype, shape, offsets into the data), then the data. Same tensors, same
// bytes.
std::string EncodeSafetensors(absl::Span<const NamedTensor> tensors);

// A tensor in an encoding, borrowed from it.
struct EncodedTensor {
  std::vector<int64_t> shape;
  absl::string_view data;  // float32, row by row, perhaps not aligned
};

// Takes an encoding apart; `encoded` must outlive the tensors. Errors: InvalidArgument says where
// it breaks the format: a length or offset beyond the end, a hole, an overlap, a shape that does
// not match its data; Unimplemented another type than F32.
absl::StatusOr<std::map<std::string, EncodedTensor>> DecodeSafetensors(absl::string_view encoded);

}  // namespace dp::trainer

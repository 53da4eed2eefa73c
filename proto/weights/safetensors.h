#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace dp {

// One named float32 tensor, borrowed.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  absl::Span<const float> values;
};

// One named whole number, a tensor of type I64 without axes.
struct NamedCount {
  std::string name;
  int64_t value = 0;
};

// Texts that a file carries beside its tensors, by name: the format's __metadata__.
using SafetensorsMetadata = std::map<std::string, std::string>;

// Encodes tensors in the safetensors format: a little-endian u64 with the header's length, the
// header, the data. The header is JSON: name -> dtype, shape, offsets into the data. Equal
// arguments give equal bytes. Texts of `metadata` are UTF-8.
std::string EncodeSafetensors(absl::Span<const NamedTensor> tensors,
                              absl::Span<const NamedCount> counts = {},
                              const SafetensorsMetadata& metadata = {});

// A tensor of any type, without its data.
struct TensorForm {
  std::string name;
  std::string type;  // the format's name, as "F32"
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
};

// The beginning of an encoding of tensors whose data follow one another in this order: the header's
// length and the header. The data stand behind it.
std::string SafetensorsHeader(absl::Span<const TensorForm> tensors,
                              const SafetensorsMetadata& metadata);

// A tensor inside an encoding; it borrows from the encoding.
struct EncodedTensor {
  std::string type;  // the format's name, as "F32"
  std::vector<int64_t> shape;
  absl::string_view data;  // row by row, perhaps not aligned
};

// Splits an encoding into its tensors; `encoded` must outlive them. Errors: InvalidArgument an
// offset beyond the end, a hole, an overlap, or a shape that does not match its data. Unimplemented
// a type of elements that this release does not know.
absl::StatusOr<std::map<std::string, EncodedTensor>> DecodeSafetensors(absl::string_view encoded);

// The texts that an encoding carries; none if it has no __metadata__. Errors: as DecodeSafetensors.
absl::StatusOr<SafetensorsMetadata> ReadSafetensorsMetadata(absl::string_view encoded);

}  // namespace dp

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace dp::data {

// A decoded image, row after row, with the channels of a pixel side by side.
struct Image {
  int64_t rows = 0;
  int64_t columns = 0;
  int channels = 3;  // 1 or 3
  std::vector<uint8_t> bytes;
};

// Decodes a PNG or JPEG file by its contents. Alpha is dropped, 16 bits become 8, palettes become
// colours. Colours become gray by ITU-R 601, as in Pillow. The orientation that a camera noted is
// ignored.
// Errors: those of OpenFile; InvalidArgument a damaged file, another format, or more than 2^28
// pixels. All name the file.
absl::StatusOr<Image> ReadImage(const std::string& path, int channels);

// The same for bytes in memory; errors do not name a file.
absl::StatusOr<Image> DecodeImage(absl::Span<const uint8_t> bytes, int channels);

}  // namespace dp::data

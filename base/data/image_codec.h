#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace dp::data {

// More pixels than a photograph has; a damaged header may ask for any number.
inline constexpr int64_t kImagePixelsMax = int64_t{1} << 28;

// A decoded image, row after row, with the channels of a pixel side by side.
struct Image {
  int64_t rows = 0;
  int64_t columns = 0;
  int channels = 3;  // 1 or 3
  std::vector<uint8_t> bytes;
};

// Decodes a PNG or JPEG file by its contents. Alpha is dropped, 16 bits become 8, palettes become
// colours. Colours become gray by ITU-R 601, as in Pillow. JPEG files in printing inks (CMYK) hold
// the opposite of each ink, as Adobe's programs write it. The orientation that a camera noted is
// ignored.
// Errors: those of OpenFile; InvalidArgument a damaged file, another format, or more than
// kImagePixelsMax pixels. All name the file.
absl::StatusOr<Image> ReadImage(const std::string& path, int channels);

// The same for bytes in memory; errors do not name a file.
absl::StatusOr<Image> DecodeImage(absl::Span<const uint8_t> bytes, int channels);

}  // namespace dp::data

#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/data/image_codec.h"

namespace dp::data {

// Decodes a PNG file to three channels (libpng).
// Errors: as DecodeImage.
absl::StatusOr<Image> DecodePng(absl::Span<const uint8_t> bytes);

}  // namespace dp::data

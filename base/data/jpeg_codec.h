#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/data/image_codec.h"

namespace dp::data {

// Decodes a JPEG file to three channels (libjpeg-turbo).
// Errors: as DecodeImage.
absl::StatusOr<Image> DecodeJpeg(absl::Span<const uint8_t> bytes);

}  // namespace dp::data

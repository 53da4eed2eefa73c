#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "base/data/image_codec.h"

namespace dp::data {

// A part of an image, in pixels from its upper left corner.
struct ImageBox {
  double row = 0;
  double column = 0;
  double rows = 0;
  double columns = 0;
};

// The largest part in the middle of an image that has the ratio of `rows` to `columns`. Resizing
// it to that size is the same as resizing the shorter side and cropping the middle.
ImageBox MiddleOf(const Image& image, int64_t rows, int64_t columns);

// Writes a part of an image resized to `rows` x `columns`, channel after channel, as values of 0 to
// 255. Bilinear; where the part is larger than the result, each value is the weighted mean of all
// pixels that it covers, as in Pillow.
void ResizeInto(const Image& image, const ImageBox& box, int64_t rows, int64_t columns,
                absl::Span<float> to);

}  // namespace dp::data

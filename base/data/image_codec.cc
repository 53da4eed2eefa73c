#include "base/data/image_codec.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/data/file_bytes.h"
#include "base/data/jpeg_codec.h"
#include "base/data/png_codec.h"
#include "base/status.h"

namespace dp::data {
namespace {

// ITU-R 601, in 16 bits of fraction. The factors sum up to 65536, so gray stays as it is.
uint8_t GrayOf(const uint8_t* pixel) {
  return static_cast<uint8_t>(
      (pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

void MakeGray(Image& image) {
  const auto pixels = static_cast<size_t>(image.rows * image.columns);
  for (size_t i = 0; i < pixels; ++i) image.bytes[i] = GrayOf(image.bytes.data() + 3 * i);
  image.bytes.resize(pixels);
  image.channels = 1;
}

}  // namespace

absl::StatusOr<Image> DecodeImage(absl::Span<const uint8_t> bytes, int channels) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  absl::StatusOr<Image> image = absl::InvalidArgumentError("is neither PNG nor JPEG");
  if (text.substr(0, 4) == "\x89PNG") image = DecodePng(bytes);
  if (text.substr(0, 2) == "\xff\xd8") image = DecodeJpeg(bytes);
  if (image.ok() && channels == 1) MakeGray(*image);
  return image;
}

absl::StatusOr<Image> ReadImage(const std::string& path, int channels) {
  DP_ASSIGN_OR_RETURN(const FileBytes file, OpenFile(path));
  absl::StatusOr<Image> image = DecodeImage(file.bytes, channels);
  if (image.ok()) return image;
  return absl::Status(image.status().code(), absl::StrCat(path, ": ", image.status().message()));
}

}  // namespace dp::data

#include "base/data/jpeg_codec.h"

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <utility>
#include <vector>

// Needs the two headers above.
#include <jpeglib.h>

#include <jerror.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dp::data {
namespace {

// a b / 255, rounded, of two bytes.
uint8_t PartOf(uint32_t a, uint32_t b) {
  const uint32_t product = a * b + 128;
  return static_cast<uint8_t>(((product >> 8) + product) >> 8);
}

// Pixels of cyan, magenta, yellow and black, each as 255 less its ink, to red, green and blue.
// Black ink covers the light that the others leave. The same as Pillow's, bit for bit.
void ColoursOfInks(absl::Span<const uint8_t> inks, JSAMPROW colours) {
  for (size_t i = 0; i + 3 < inks.size(); i += 4) {
    const uint8_t light = inks[i + 3];
    for (size_t ink = 0; ink < 3; ++ink) {
      *colours++ = static_cast<JSAMPLE>(light - PartOf(255u - inks[i + ink], light));
    }
  }
}

// One decoding. libjpeg leaves its functions by longjmp, so nothing that owns memory is created
// between setjmp and the end of the function.
class JpegDecoding {
 public:
  explicit JpegDecoding(absl::Span<const uint8_t> bytes) : bytes_(bytes) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = Fail;
    errors_.emit_message = Judge;
    jpeg_.client_data = this;
  }
  ~JpegDecoding() { jpeg_destroy_decompress(&jpeg_); }
  JpegDecoding(const JpegDecoding&) = delete;
  JpegDecoding& operator=(const JpegDecoding&) = delete;

  absl::StatusOr<Image> Run() {
    if (!ReadHeader()) return Damaged();
    image_.rows = jpeg_.output_height;
    image_.columns = jpeg_.output_width;
    if (image_.rows * image_.columns > kImagePixelsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("has ", image_.rows, " x ", image_.columns, " pixels; make it smaller"));
    }
    image_.bytes.resize(static_cast<size_t>(image_.rows * image_.columns * 3));
    if (jpeg_.out_color_space == JCS_CMYK) inks_.resize(static_cast<size_t>(image_.columns * 4));
    if (!ReadPixels()) return Damaged();
    return std::move(image_);
  }

 private:
  absl::Status Damaged() const {
    return absl::InvalidArgumentError(absl::StrCat("is a damaged JPEG file: ", what_));
  }

  [[noreturn]] static void Fail(j_common_ptr jpeg) {
    auto* self = static_cast<JpegDecoding*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, self->what_);
    std::longjmp(self->back_, 1);
  }
  // Where the file ends too early, libjpeg would make up the rest.
  static void Judge(j_common_ptr jpeg, int level) {
    const int code = jpeg->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) Fail(jpeg);
  }

  bool ReadHeader() {
    if (setjmp(back_) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_mem_src(&jpeg_, bytes_.data(), bytes_.size());
    jpeg_read_header(&jpeg_, TRUE);
    const bool inks = jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK;
    jpeg_.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    jpeg_calc_output_dimensions(&jpeg_);
    return true;
  }

  bool ReadPixels() {
    if (setjmp(back_) != 0) return false;
    jpeg_start_decompress(&jpeg_);
    const size_t row_bytes = size_t{3} * jpeg_.output_width;
    while (jpeg_.output_scanline < jpeg_.output_height) {
      JSAMPROW const pixels = image_.bytes.data() + jpeg_.output_scanline * row_bytes;
      JSAMPROW row = inks_.empty() ? pixels : inks_.data();
      jpeg_read_scanlines(&jpeg_, &row, 1);
      ColoursOfInks(inks_, pixels);
    }
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

  const absl::Span<const uint8_t> bytes_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf back_;
  char what_[JMSG_LENGTH_MAX] = "";
  Image image_;
  std::vector<uint8_t> inks_;  // a row of a file in four colours
};

}  // namespace

absl::StatusOr<Image> DecodeJpeg(absl::Span<const uint8_t> bytes) {
  return JpegDecoding(bytes).Run();
}

}  // namespace dp::data

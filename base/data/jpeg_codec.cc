#include "base/data/jpeg_codec.h"

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <utility>

// Needs the two headers above.
#include <jpeglib.h>

#include <jerror.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dp::data {
namespace {

constexpr int64_t kJpegPixelsMax = int64_t{1} << 28;

// One decoding. libjpeg leaves its functions by longjmp, so nothing that owns memory is created
// between Start and the end of a call.
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
    if (image_.rows * image_.columns > kJpegPixelsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("has ", image_.rows, " x ", image_.columns, " pixels; make it smaller"));
    }
    image_.bytes.resize(static_cast<size_t>(image_.rows * image_.columns * 3));
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
    jpeg_.out_color_space = JCS_RGB;
    jpeg_calc_output_dimensions(&jpeg_);
    return true;
  }

  bool ReadPixels() {
    if (setjmp(back_) != 0) return false;
    jpeg_start_decompress(&jpeg_);
    const size_t row_bytes = size_t{3} * jpeg_.output_width;
    while (jpeg_.output_scanline < jpeg_.output_height) {
      JSAMPROW row = image_.bytes.data() + jpeg_.output_scanline * row_bytes;
      jpeg_read_scanlines(&jpeg_, &row, 1);
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
};

}  // namespace

absl::StatusOr<Image> DecodeJpeg(absl::Span<const uint8_t> bytes) {
  return JpegDecoding(bytes).Run();
}

}  // namespace dp::data

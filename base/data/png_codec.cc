#include "base/data/png_codec.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dp::data {
namespace {

// One decoding. libpng leaves its functions by longjmp, so nothing that owns memory is created
// between setjmp and the end of the function.
class PngDecoding {
 public:
  explicit PngDecoding(absl::Span<const uint8_t> bytes) : left_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, Fail, Ignore);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngDecoding() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoding(const PngDecoding&) = delete;
  PngDecoding& operator=(const PngDecoding&) = delete;

  absl::StatusOr<Image> Run() {
    if (info_ == nullptr) return absl::ResourceExhaustedError("no memory to decode");
    if (!ReadHeader()) return Damaged();
    image_.rows = rows_;
    image_.columns = columns_;
    if (image_.rows * image_.columns > kImagePixelsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("has ", image_.rows, " x ", image_.columns, " pixels; make it smaller"));
    }
    image_.bytes.resize(static_cast<size_t>(image_.rows * image_.columns * 3));
    if (!ReadPixels()) return Damaged();
    return std::move(image_);
  }

 private:
  absl::Status Damaged() const {
    return absl::InvalidArgumentError(absl::StrCat("is a damaged PNG file: ", what_));
  }

  [[noreturn]] static void Fail(png_structp png, png_const_charp what) {
    auto* self = static_cast<PngDecoding*>(png_get_error_ptr(png));
    std::strncpy(self->what_, what, sizeof self->what_ - 1);
    std::longjmp(self->back_, 1);
  }
  static void Ignore(png_structp, png_const_charp) {}
  static void Take(png_structp png, png_bytep to, size_t size) {
    auto* self = static_cast<PngDecoding*>(png_get_io_ptr(png));
    if (size > self->left_.size()) png_error(png, "it ends too early");
    std::memcpy(to, self->left_.data(), size);
    self->left_.remove_prefix(size);
  }

  bool ReadHeader() {
    if (setjmp(back_) != 0) return false;
    png_set_read_fn(png_, this, Take);
    png_read_info(png_, info_);
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_strip_alpha(png_);
    png_set_gray_to_rgb(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    rows_ = png_get_image_height(png_, info_);
    columns_ = png_get_image_width(png_, info_);
    if (png_get_rowbytes(png_, info_) != size_t{3} * columns_) png_error(png_, "odd rows");
    return true;
  }

  bool ReadPixels() {
    if (setjmp(back_) != 0) return false;
    for (int pass = 0; pass < passes_; ++pass) {
      for (size_t row = 0; row < rows_; ++row) {
        png_read_row(png_, image_.bytes.data() + row * 3 * columns_, nullptr);
      }
    }
    png_read_end(png_, nullptr);
    return true;
  }

  absl::Span<const uint8_t> left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf back_;
  char what_[128] = "";
  uint32_t rows_ = 0;
  uint32_t columns_ = 0;
  int passes_ = 1;
  Image image_;
};

}  // namespace

absl::StatusOr<Image> DecodePng(absl::Span<const uint8_t> bytes) {
  return PngDecoding(bytes).Run();
}

}  // namespace dp::data

#include "base/data/image_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

// Needs the headers above.
#include <jpeglib.h>

#include "base/data/testing/png_file.h"
#include "base/testing/scratch_dir.h"

namespace dp::data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A JPEG file whose pixels are all the same.
std::string JpegOf(JDIMENSION rows, JDIMENSION columns, const std::vector<JSAMPLE>& pixel,
                   J_COLOR_SPACE pixel_space, J_COLOR_SPACE file_space) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_width = columns;
  jpeg.image_height = rows;
  jpeg.input_components = static_cast<int>(pixel.size());
  jpeg.in_color_space = pixel_space;
  jpeg_set_defaults(&jpeg);
  jpeg_set_colorspace(&jpeg, file_space);
  jpeg_set_quality(&jpeg, 100, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<JSAMPLE> line;
  for (JDIMENSION i = 0; i < columns; ++i) line.insert(line.end(), pixel.begin(), pixel.end());
  JSAMPROW row = line.data();
  for (JDIMENSION i = 0; i < rows; ++i) jpeg_write_scanlines(&jpeg, &row, 1);
  jpeg_finish_compress(&jpeg);
  std::string bytes(reinterpret_cast<char*>(memory), size);
  jpeg_destroy_compress(&jpeg);
  std::free(memory);
  return bytes;
}

std::string GrayJpeg(JDIMENSION rows, JDIMENSION columns, JSAMPLE value) {
  return JpegOf(rows, columns, {value}, JCS_GRAYSCALE, JCS_GRAYSCALE);
}

TEST(ImageCodecTest, APngGivesItsPixels) {
  const auto image = DecodeImage(BytesOf(PngOf(1, 2, 2, "\1\2\3\4\5\6")), 3);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->rows, 1);
  EXPECT_EQ(image->columns, 2);
  EXPECT_THAT(image->bytes, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(ImageCodecTest, AlphaIsDroppedAndGrayHasThreeEqualChannels) {
  EXPECT_THAT(DecodeImage(BytesOf(PngOf(1, 1, 6, std::string("\1\2\3\0", 4))), 3)->bytes,
              ElementsAre(1, 2, 3));
  EXPECT_THAT(DecodeImage(BytesOf(PngOf(1, 1, 0, "\7")), 3)->bytes, ElementsAre(7, 7, 7));
}

TEST(ImageCodecTest, GrayOfColoursIsPillows) {
  // Pillow: Image.new('RGB', (1, 1), (200, 100, 50)).convert('L') is 124.
  EXPECT_THAT(DecodeImage(BytesOf(PngOf(1, 1, 2, "\xc8\x64\x32")), 1)->bytes, ElementsAre(124));
  EXPECT_THAT(DecodeImage(BytesOf(PngOf(1, 1, 0, "\xfe")), 1)->bytes, ElementsAre(0xfe));
}

TEST(ImageCodecTest, AJpegGivesItsPixels) {
  const auto image = DecodeImage(BytesOf(GrayJpeg(10, 20, 128)), 3);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->rows, 10);
  EXPECT_EQ(image->columns, 20);
  EXPECT_THAT(image->bytes, Each(128));
}

TEST(ImageCodecTest, InksOfAJpegBecomeColours) {
  // Files hold 255 less each ink. Light 204 remains of black; cyan 55 takes 44 of it, rounded.
  const std::vector<JSAMPLE> pixel = {200, 255, 0, 204};
  const auto plain = DecodeImage(BytesOf(JpegOf(8, 8, pixel, JCS_CMYK, JCS_CMYK)), 3);
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_EQ(plain->bytes.size(), size_t{8 * 8 * 3});
  for (size_t i = 0; i < plain->bytes.size(); i += 3) {
    EXPECT_THAT(absl::MakeSpan(plain->bytes).subspan(i, 3), ElementsAre(160, 204, 0));
  }
  const auto mixed = DecodeImage(BytesOf(JpegOf(8, 8, pixel, JCS_CMYK, JCS_YCCK)), 3);
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_NEAR(mixed->bytes[0], 160, 2);
  EXPECT_NEAR(mixed->bytes[1], 204, 2);
  EXPECT_NEAR(mixed->bytes[2], 0, 2);
  EXPECT_EQ(DecodeImage(BytesOf(JpegOf(8, 8, pixel, JCS_CMYK, JCS_CMYK)), 1)->bytes[0], 168);
}

TEST(ImageCodecTest, ATruncatedFileIsAnErrorAtEveryByte) {
  for (const std::string& whole : {PngOf(3, 2, 0, "abcdef"), GrayJpeg(40, 40, 9)}) {
    for (size_t size = 0; size + 2 < whole.size(); ++size) {
      EXPECT_FALSE(DecodeImage(BytesOf(whole.substr(0, size)), 3).ok()) << size;
    }
  }
}

TEST(ImageCodecTest, ADamagedFileIsNamed) {
  const ScratchDir dir;
  std::string png = PngOf(1, 1, 0, "\7");
  png[45] ^= 1;
  WriteFile(dir.path() / "a.png", png);
  const std::string path = dir.path() / "a.png";
  EXPECT_THAT(ReadImage(path, 3).status().message(), HasSubstr(path + ": is a damaged PNG file: "));
  WriteFile(dir.path() / "b.jpg", "text");
  EXPECT_THAT(ReadImage(dir.path() / "b.jpg", 3).status().message(),
              HasSubstr("b.jpg: is neither PNG nor JPEG"));
}

TEST(ImageCodecTest, AHeaderThatAsksForTooMuchTakesNoMemory) {
  std::string png = PngOf(1, 1, 0, "\7");
  const std::string header =
      BigEndianOf(1 << 20) + BigEndianOf(1 << 20) + "\x8" + std::string(4, 0);
  png = png.substr(0, 8) + PngChunk("IHDR", header) + png.substr(33);
  EXPECT_FALSE(DecodeImage(BytesOf(png), 3).ok());
}

}  // namespace
}  // namespace dp::data

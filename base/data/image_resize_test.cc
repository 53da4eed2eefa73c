#include "base/data/image_resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dp::data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

std::vector<float> Resized(const Image& image, int64_t rows, int64_t columns) {
  std::vector<float> values(static_cast<size_t>(image.channels * rows * columns));
  ResizeInto(image, MiddleOf(image, rows, columns), rows, columns, absl::MakeSpan(values));
  return values;
}

TEST(ImageResizeTest, AnImageOfTheSizeStaysAsItIsChannelAfterChannel) {
  const Image image{.rows = 1, .columns = 2, .channels = 3, .bytes = {1, 2, 3, 4, 5, 6}};
  EXPECT_THAT(Resized(image, 1, 2), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(ImageResizeTest, TheMiddleOfTheLongerSideIsTaken) {
  const Image wide{.rows = 1, .columns = 3, .channels = 1, .bytes = {10, 20, 30}};
  EXPECT_THAT(Resized(wide, 1, 1), ElementsAre(20));
  const Image high{.rows = 3, .columns = 1, .channels = 1, .bytes = {10, 20, 30}};
  EXPECT_THAT(Resized(high, 1, 1), ElementsAre(20));
}

TEST(ImageResizeTest, ASmallerImageIsAWeightedMean) {
  // Pillow: resize((2, 1), BILINEAR) of these four pixels gives 3/7, 3/7 and 1/7 of each three.
  const Image image{.rows = 1, .columns = 4, .channels = 1, .bytes = {0, 70, 140, 210}};
  std::vector<float> values(2);
  ResizeInto(image, {0, 0, 1, 4}, 1, 2, absl::MakeSpan(values));
  EXPECT_THAT(values, Pointwise(FloatNear(1e-4f), {50.0f, 160.0f}));
}

TEST(ImageResizeTest, ALargerImageIsInterpolated) {
  const Image image{.rows = 1, .columns = 2, .channels = 1, .bytes = {0, 100}};
  std::vector<float> values(4);
  ResizeInto(image, {0, 0, 1, 2}, 1, 4, absl::MakeSpan(values));
  EXPECT_THAT(values, Pointwise(FloatNear(1e-4f), {0.0f, 25.0f, 75.0f, 100.0f}));
}

TEST(ImageResizeTest, OneValueStaysOneValueAtEverySize) {
  const Image image{.rows = 13, .columns = 7, .channels = 1, .bytes = std::vector<uint8_t>(91, 40)};
  for (const int64_t rows : {1, 3, 13, 40}) {
    for (const int64_t columns : {1, 5, 7, 33}) {
      EXPECT_THAT(Resized(image, rows, columns), Each(FloatNear(40, 1e-3f)));
    }
  }
}

}  // namespace
}  // namespace dp::data

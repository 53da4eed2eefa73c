#include "worker/engine/data/folder_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/data/testing/png_file.h"
#include "base/testing/scratch_dir.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

class FolderDatasetTest : public testing::Test {
 protected:
  FolderDatasetTest() {
    data::WriteFile(dir_.path() / "train/a/0.png", data::PngOf(1, 2, 0, std::string("\0\xff", 2)));
    data::WriteFile(dir_.path() / "train/b/0.png",
                    data::PngOf(1, 2, 2, "\x33\x33\x33\x66\x66\x66"));
    options_.dir = dir_.path();
  }
  static std::vector<float> ReadSample(const Dataset& data, int64_t sample, uint64_t epoch) {
    std::vector<float> values(static_cast<size_t>(model::ElementCount(data.sample_shape())));
    int32_t label = 0;
    EXPECT_EQ(data.Read({.samples = absl::MakeConstSpan(&sample, 1),
                         .epoch = epoch,
                         .inputs = absl::MakeSpan(values),
                         .labels = absl::MakeSpan(&label, 1)}),
              absl::OkStatus());
    EXPECT_EQ(label, sample);
    return values;
  }

  ScratchDir dir_;
  FolderDatasetOptions options_{
      .rows = 1, .columns = 2, .channels = 1, .normalization = {{0.2f}, {0.5f}}};
};

TEST_F(FolderDatasetTest, ImagesBecomeNormalizedSamples) {
  const auto data = OpenFolderDataset(options_, data::Split::kTrain);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->classes(), 2);
  EXPECT_EQ((*data)->sample_shape(), (model::Shape{1, 1, 2}));
  EXPECT_THAT(ReadSample(**data, 0, 0), Pointwise(testing::FloatEq(), {-0.4f, 1.6f}));
  EXPECT_THAT(ReadSample(**data, 1, 0), Pointwise(testing::FloatEq(), {0.0f, 0.4f}));
}

TEST_F(FolderDatasetTest, ADamagedFileIsAnErrorThatNamesIt) {
  data::WriteFile(dir_.path() / "train/b/1.png", "no image");
  const auto data = OpenFolderDataset(options_, data::Split::kTrain);
  ASSERT_TRUE(data.ok()) << data.status();
  const std::vector<int64_t> samples = {2};
  std::vector<float> values(2);
  std::vector<int32_t> labels(1);
  EXPECT_THAT((*data)
                  ->Read({.samples = samples,
                          .inputs = absl::MakeSpan(values),
                          .labels = absl::MakeSpan(labels)})
                  .message(),
              HasSubstr("train/b/1.png: is neither PNG nor JPEG"));
}

TEST_F(FolderDatasetTest, APartIsDrawnForEachSampleAndEpoch) {
  std::string ramp;
  for (int i = 0; i < 256; ++i) ramp += static_cast<char>(i);
  data::WriteFile(dir_.path() / "train/a/0.png", data::PngOf(16, 16, 0, ramp));
  FolderDatasetOptions cropped = options_;
  cropped.resized_crop = {.area_min = 0.1, .seed = 3};
  const auto data = *OpenFolderDataset(cropped, data::Split::kTrain);
  const std::vector<float> first = ReadSample(*data, 0, 0);
  EXPECT_EQ(ReadSample(*data, 0, 0), first);
  EXPECT_NE(ReadSample(*data, 0, 1), first);
  std::vector<float> middle(2);
  int32_t label = 0;
  data->Gather({0}, absl::MakeSpan(middle), absl::MakeSpan(&label, 1));
  EXPECT_EQ(middle, ReadSample(**OpenFolderDataset(options_, data::Split::kTrain), 0, 0));
}

TEST_F(FolderDatasetTest, MoreFoldersThanClassesAreAnError) {
  options_.classes = 1;
  EXPECT_THAT(OpenFolderDataset(options_, data::Split::kTrain).status().message(),
              HasSubstr("has 2 classes, but train.data.classes is 1"));
}

}  // namespace
}  // namespace dp::engine

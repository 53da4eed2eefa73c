#include "worker/trainer/model/open_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/data/testing/png_file.h"
#include "base/testing/scratch_dir.h"

namespace dp::trainer {
namespace {

// 40 images of 1 x 8 pixels, each a ramp.
class OpenDataTest : public testing::Test {
 protected:
  OpenDataTest() {
    for (int i = 0; i < 40; ++i) {
      data::WriteFile(dir_.path() / "train" / (i % 2 == 0 ? "a" : "b") / absl::StrCat(i, ".png"),
                      data::PngOf(1, 8, 0, std::string("\x10\x20\x30\x40\x50\x60\x70\x80", 8)));
    }
    plan_.data.validation = 0.25;
    plan_.data.augment = engine::AugmentOptions{.flip = true, .seed = 1};
    plan_.data.source = engine::FolderDatasetOptions{
        .dir = dir_.path(),
        .rows = 1,
        .columns = 8,
        .channels = 1,
        .resized_crop = engine::ResizedCropOptions{.area_min = 0.5, .seed = 1}};
  }

  // How many samples differ from the image.
  static int Changed(const engine::Dataset& data) {
    int changed = 0;
    for (int64_t sample = 0; sample < data.size(); ++sample) {
      std::vector<float> values(8);
      int32_t label = 0;
      EXPECT_EQ(data.Read({.samples = absl::MakeConstSpan(&sample, 1),
                           .inputs = absl::MakeSpan(values),
                           .labels = absl::MakeSpan(&label, 1)}),
                absl::OkStatus());
      for (int i = 0; i < 8; ++i) {
        if (std::abs(values[i] - static_cast<float>(i + 1) * 16 / 255) < 1e-5f) continue;
        ++changed;
        break;
      }
    }
    return changed;
  }

  ScratchDir dir_;
  TrainingPlan plan_;
};

TEST_F(OpenDataTest, OnlyTheTrainingSetIsChanged) {
  const auto data = OpenDatasets(plan_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->size(), 30);
  EXPECT_EQ(data->test->size(), 10);
  EXPECT_EQ(Changed(*data->test), 0);
  EXPECT_GT(Changed(*data->train), 10);
}

TEST_F(OpenDataTest, WithoutChangesBothPartsAreAsTheyAre) {
  plan_.data.augment.reset();
  std::get<engine::FolderDatasetOptions>(plan_.data.source).resized_crop.reset();
  EXPECT_EQ(Changed(*OpenDatasets(plan_)->train), 0);
}

TEST_F(OpenDataTest, WithoutValidationThereMustBeATestSet) {
  plan_.data.validation = 0;
  EXPECT_THAT(OpenDatasets(plan_).status().message(),
              testing::HasSubstr("has no folder test or val"));
}

}  // namespace
}  // namespace dp::trainer

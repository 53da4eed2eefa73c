#include "base/data/idx_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/testing/scratch_dir.h"

namespace dp::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class IdxFileTest : public testing::Test {
 protected:
  void Write(const std::string& name, std::initializer_list<int> bytes) {
    const std::string text(bytes.begin(), bytes.end());
    std::ofstream(dir_.path() / name, std::ios::binary) << text;
  }
  // Two samples of one shape each, and their labels.
  absl::StatusOr<SampleSet> WithLabels(const std::string& images, Split split = Split::kTrain) {
    Write(images.substr(0, images.find('-')) + "-labels-idx1-ubyte",
          {0, 0, 8, 1, 0, 0, 0, 2, 4, 0});
    return ReadIdxSet(dir_.path(), split);
  }

  ScratchDir dir_;
};

TEST_F(IdxFileTest, ASampleMayHaveAnyNumberOfAxes) {
  Write("train-images-idx2-ubyte", {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6});
  const auto features = WithLabels("train-images-idx2-ubyte");
  ASSERT_TRUE(features.ok()) << features.status();
  EXPECT_EQ(features->inputs.shape(), (model::Shape{3}));
  EXPECT_EQ(features->labels.classes(), 5);

  std::filesystem::remove(dir_.path() / "train-images-idx2-ubyte");
  Write("train-images-idx4-ubyte",
        {0, 0, 8, 4, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4});
  const auto images = WithLabels("train-images-idx4-ubyte");
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_EQ(images->inputs.shape(), (model::Shape{2, 1, 1}));
  EXPECT_EQ(*ReadIdxShape(dir_.path()), (model::Shape{2, 1, 1}));
  EXPECT_EQ(*ReadIdxClasses(dir_.path()), 5);
}

TEST_F(IdxFileTest, SamplesMayBeFloats) {
  Write("test-images-idx2-float",
        {0, 0, 0xd, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0x3f, 0x80, 0, 0, 0xbf, 0, 0, 0});
  const auto set = WithLabels("test-images-idx2-float", Split::kTest);
  ASSERT_TRUE(set.ok()) << set.status();
  std::vector<float> values(2);
  set->inputs.Read(0, absl::MakeSpan(values).first(1));
  set->inputs.Read(1, absl::MakeSpan(values).subspan(1));
  EXPECT_THAT(values, ElementsAre(1, -0.5));
}

TEST_F(IdxFileTest, TwoFilesOfSamplesAreAnError) {
  Write("train-images-idx2-ubyte", {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 1, 1, 2});
  Write("train-images-idx2-float", {});
  EXPECT_THAT(WithLabels("train-images-idx2-ubyte").status().message(),
              HasSubstr("has train-images-idx2-float and train-images-idx2-ubyte; keep one"));
}

TEST_F(IdxFileTest, ATypeThatNoIdxFileHasIsAnError) {
  Write("a", {0, 0, 7, 1, 0, 0, 0, 1, 1});
  EXPECT_THAT(ReadIdx(dir_.path() / "a").status().message(),
              HasSubstr("magic number is 0x00000701, which is not one of an IDX file"));
  Write("a", {0, 0, 8, 9, 0, 0, 0, 1, 1});
  EXPECT_FALSE(ReadIdx(dir_.path() / "a").ok());
}

TEST_F(IdxFileTest, SeveralLabelsOfASampleAreAnError) {
  Write("train-images-idx2-ubyte", {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 1, 1, 2});
  Write("train-labels-idx2-ubyte", {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4});
  EXPECT_THAT(ReadIdxSet(dir_.path(), Split::kTrain).status().message(),
              HasSubstr("train-labels-idx2-ubyte: has 2 labels for each sample; expected one"));
}

}  // namespace
}  // namespace dp::data

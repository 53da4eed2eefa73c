#include "worker/engine/data/array_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A data directory of its own for each test, with a set of three images of 1x2 pixels.
class ArrayDatasetTest : public testing::Test {
 protected:
  ArrayDatasetTest() {
    std::string pattern = testing::TempDir() + "/arrays-XXXXXX";
    dir_ = mkdtemp(pattern.data());
    Write("train-images-idx3-ubyte", images_);
    Write("train-labels-idx1-ubyte", labels_);
  }
  ~ArrayDatasetTest() override { std::filesystem::remove_all(dir_); }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_ + "/" + name, std::ios::binary) << bytes;
  }
  void Compress(const std::string& name, const std::string& bytes) {
    gzFile file = gzopen((dir_ + "/" + name).c_str(), "wb");
    gzwrite(file, bytes.data(), bytes.size());
    gzclose(file);
  }
  void Remove(const std::string& name) { std::filesystem::remove(dir_ + "/" + name); }

  absl::StatusOr<std::unique_ptr<Dataset>> Open(ArrayDatasetOptions options = {},
                                                Split split = Split::kTrain) const {
    options.source = data::IdxSource{dir_};
    return OpenArrayDataset(options, split);
  }
  std::string ErrorOf(const ArrayDatasetOptions& options = {}) const {
    return std::string(Open(options).status().message());
  }

  static std::string Bytes(std::initializer_list<int> bytes) {
    return {bytes.begin(), bytes.end()};
  }

  std::string dir_;
  const std::string images_ =
      Bytes({0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 51, 102, 153, 204, 255});
  const std::string labels_ = Bytes({0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9});
};

TEST_F(ArrayDatasetTest, GathersNormalizedSamplesInAnyOrder) {
  const auto data = *Open({.normalization = {{0.2f}, {0.5f}}});
  std::vector<float> images(4);
  std::vector<int32_t> labels(2);
  data->Gather({2, 0}, absl::MakeSpan(images), absl::MakeSpan(labels));
  EXPECT_THAT(labels, ElementsAre(9, 7));
  EXPECT_FLOAT_EQ(images[0], (0.8f - 0.2f) / 0.5f);
  EXPECT_FLOAT_EQ(images[3], (0.2f - 0.2f) / 0.5f);
  EXPECT_EQ(data->sample_shape(), (model::Shape{1, 1, 2}));
}

TEST_F(ArrayDatasetTest, ReadsCompressedFilesAlike) {
  Remove("train-images-idx3-ubyte");
  Compress("train-images-idx3-ubyte.gz", images_);
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->size(), 3);
}

TEST_F(ArrayDatasetTest, AMissingDirectoryIsNamed) {
  const auto status =
      OpenArrayDataset({.source = data::IdxSource{dir_ + "/none"}}, Split::kTrain).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(status.message(), HasSubstr("/none does not exist"));
}

TEST_F(ArrayDatasetTest, AMissingFileIsNamedInBothSpellings) {
  const auto status = Open({}, Split::kTest).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(status.message(),
              HasSubstr("has neither t10k-images-idx3-ubyte nor t10k-images-idx3-ubyte.gz"));
}

TEST_F(ArrayDatasetTest, AWrongMagicNumberIsRefused) {
  Write("train-images-idx3-ubyte", labels_);
  EXPECT_THAT(ErrorOf(), HasSubstr("train-images-idx3-ubyte: magic number is 0x00000801, but an "
                                   "IDX file of bytes with 3 axes has 0x00000803"));
}

TEST_F(ArrayDatasetTest, TruncationIsFoundAtEveryByte) {
  for (size_t size = 0; size < images_.size(); ++size) {
    Write("train-images-idx3-ubyte", images_.substr(0, size));
    EXPECT_THAT(ErrorOf(), HasSubstr("truncated")) << size;
  }
  EXPECT_THAT(ErrorOf(), HasSubstr("the header asks for 6 bytes, found 5"));
}

TEST_F(ArrayDatasetTest, TruncationOfACompressedFileIsFound) {
  Compress("whole.gz", images_);
  std::ifstream whole(dir_ + "/whole.gz", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(whole)), {});
  Remove("train-images-idx3-ubyte");
  for (size_t size = 0; size < bytes.size(); ++size) {
    Write("train-images-idx3-ubyte.gz", bytes.substr(0, size));
    EXPECT_NE(ErrorOf(), "") << size;
  }
}

TEST_F(ArrayDatasetTest, BytesAfterTheEndAreRefused) {
  Write("train-images-idx3-ubyte", images_ + "x");
  EXPECT_THAT(ErrorOf(), HasSubstr("longer than the 6 bytes"));
}

TEST_F(ArrayDatasetTest, AHeaderThatAsksForTooMuchTakesNoMemory) {
  std::string huge = images_;
  for (size_t i : {4, 8, 12}) huge[i] = 0x7f;
  Write("train-images-idx3-ubyte", huge);
  EXPECT_THAT(ErrorOf(), HasSubstr("more bytes than a file can have"));
}

TEST_F(ArrayDatasetTest, ALabelOutOfRangeIsNamedWithItsFileAndSample) {
  EXPECT_EQ(
      ErrorOf({.classes = 9}),
      dir_ + "/train-labels-idx1-ubyte: label 9 of sample 2 is out of range, labels are 0 to 8");
}

TEST_F(ArrayDatasetTest, CountsOfImagesAndLabelsMustAgree) {
  Write("train-labels-idx1-ubyte", Bytes({0, 0, 8, 1, 0, 0, 0, 2, 7, 8}));
  EXPECT_THAT(ErrorOf(), HasSubstr("train-images-idx3-ubyte has 3 samples, but "
                                   "train-labels-idx1-ubyte has 2"));
}

TEST_F(ArrayDatasetTest, AStandardDeviationMustBePositive) {
  EXPECT_EQ(ErrorOf({.normalization = {.std = {0}}}), "std is 0; it must be above 0");
}

TEST_F(ArrayDatasetTest, EachChannelHasItsMeanAndDeviation) {
  Remove("train-images-idx3-ubyte");
  // Three samples of two channels.
  Write("train-images-idx4-ubyte", Bytes({0, 0, 8, 4, 0, 0, 0, 3, 0,  0,   0,   2,   0,
                                          0, 0, 1, 0, 0, 0, 1, 0, 51, 102, 153, 204, 255}));
  const auto data = Open({.normalization = {{0.2f, 0.3f}, {0.5f, 0.25f}}});
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<float> images(2);
  std::vector<int32_t> labels(1);
  (*data)->Gather({1}, absl::MakeSpan(images), absl::MakeSpan(labels));
  EXPECT_THAT(images, ElementsAre((102 / 255.0f - 0.2f) / 0.5f, (153 / 255.0f - 0.3f) / 0.25f));
  EXPECT_TRUE(std::holds_alternative<std::monostate>((*data)->storage()));
  EXPECT_EQ(ErrorOf({.normalization = {.mean = {1, 2, 3}}}),
            "mean has 3 numbers, and a sample has the shape 2x1x1; give one number, or 2, one for "
            "each channel");
}

TEST_F(ArrayDatasetTest, FloatsAreNotDividedBy255) {
  Remove("train-images-idx3-ubyte");
  Write("train-images-idx2-float",
        Bytes({0, 0, 13, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0x3f, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const auto data = Open({.normalization = {{0.5f}, {0.25f}}});
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<float> images(1);
  std::vector<int32_t> labels(1);
  (*data)->Gather({0}, absl::MakeSpan(images), absl::MakeSpan(labels));
  EXPECT_THAT(images, ElementsAre(2));
}

TEST_F(ArrayDatasetTest, ANumberThatIsNotFiniteIsNamedWhenItsSampleIsRead) {
  Remove("train-images-idx3-ubyte");
  Write("train-images-idx2-float",
        Bytes({0, 0, 13, 2, 0, 0, 0,    3,    0, 0, 0,    2,    0x3f, 0x80, 0, 0, 0, 0,
               0, 0, 0,  0, 0, 0, 0x7f, 0xc0, 0, 0, 0x7f, 0x80, 0,    0,    0, 0, 0, 0}));
  const auto data = Open({.normalization = {{0.5f}, {0.25f}}});
  ASSERT_TRUE(data.ok()) << data.status();
  const auto read = [&](int64_t sample) {
    std::vector<float> values(2);
    std::vector<int32_t> label(1);
    const std::vector<int64_t> samples = {sample};
    return (*data)->Read(
        {.samples = samples, .inputs = absl::MakeSpan(values), .labels = absl::MakeSpan(label)});
  };
  EXPECT_EQ(read(0), absl::OkStatus());
  EXPECT_EQ(read(1).message(),
            dir_ +
                "/train-images-idx2-float: sample 1 has nan at place 1; expected finite "
                "numbers; replace it, or leave the sample out");
  EXPECT_THAT(read(2).message(), HasSubstr("sample 2 has inf at place 0"));
}

TEST_F(ArrayDatasetTest, ClassesWithoutSamplesAreLoggedUnlessTheyWereGiven) {
  const auto logged = [&](const ArrayDatasetOptions& options) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(Open(options).ok());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(logged({}), HasSubstr("labels show 10 classes, 3 of which have samples"));
  EXPECT_EQ(logged({.classes = 10}), "");
  Write("train-labels-idx1-ubyte", Bytes({0, 0, 8, 1, 0, 0, 0, 3, 1, 0, 1}));
  EXPECT_EQ(logged({}), "");
}

TEST_F(ArrayDatasetTest, DevicesGetImagesOfOneMeanAsTheyAre) {
  const auto data = *Open({.normalization = {{0.2f}, {0.5f}}});
  const auto stored = std::get<StoredImages>(data->storage());
  EXPECT_THAT(stored.images, ElementsAre(0, 51, 102, 153, 204, 255));
  EXPECT_THAT(stored.labels, ElementsAre(7, 8, 9));
  EXPECT_EQ(stored.std, 0.5f);
  EXPECT_EQ(data->classes(), 10);
}

TEST_F(ArrayDatasetTest, AnIgnoredLabelIsNoClass) {
  EXPECT_EQ((*Open({.ignored_label = 9}))->classes(), 9);
  EXPECT_EQ((*Open({.ignored_label = 8}))->classes(), 10);
  EXPECT_TRUE(Open({.classes = 9, .ignored_label = 9}).ok());
  EXPECT_FALSE(Open({.classes = 8, .ignored_label = 9}).ok());
}

}  // namespace
}  // namespace dp::engine

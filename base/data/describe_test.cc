#include "base/data/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/data/testing/png_file.h"
#include "base/testing/scratch_dir.h"

namespace dp::data {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DescribeTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (dir_.path() / name).string(); }
  std::string Write(const std::string& name, const std::string& bytes) const {
    WriteFile(dir_.path() / name, bytes);
    return path(name);
  }
  static Description Described(const std::string& path) {
    auto description = Describe(path);
    EXPECT_TRUE(description.ok()) << description.status();
    return *std::move(description);
  }

  // As numpy.save writes an array.
  static std::string Npy(const std::string& type, const std::string& shape,
                         const std::string& body) {
    std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape;
    header += ", }";
    header.resize(117, ' ');
    return std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n" + body;
  }
  static std::string ErrorOf(const std::string& path) {
    return std::string(Describe(path).status().message());
  }

  static constexpr uid_t kNobody = 65534;
  ScratchDir dir_;
};

TEST_F(DescribeTest, IdxFilesHaveShapeClassesMeanAndDeviation) {
  Write("train-images-idx3-ubyte",
        std::string("\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\1", 16) + std::string("\0\xff", 2));
  Write("train-labels-idx1-ubyte", std::string("\0\0\x08\1\0\0\0\2\2\0", 10));
  const Description found = Described(dir_.path());
  EXPECT_EQ(found.format, Format::kIdxDirectory);
  EXPECT_EQ(found.shape, (model::Shape{1, 1, 1}));
  EXPECT_THAT(found.class_counts, ElementsAre(1, 0, 1));
  EXPECT_THAT(found.mean, ElementsAre(DoubleNear(0.5, 1e-6)));
  EXPECT_THAT(found.std, ElementsAre(DoubleNear(0.5, 1e-6)));
  EXPECT_THAT(found.job_lines, ElementsAre("kind: images", "dir: " + dir_.path().string(),
                                           "validation: 0.1", "mean: 0.5", "std: 0.5"));
}

TEST_F(DescribeTest, CifarIsRecognizedByItsFiles) {
  Write("data_batch_1.bin", "\7" + std::string(3072, '\0'));
  Write("test_batch.bin", "\1" + std::string(3072, '\0') + "\2" + std::string(3072, '\0'));
  const Description found = Described(dir_.path());
  EXPECT_EQ(found.format, Format::kCifar10);
  EXPECT_EQ(found.test_samples, 2);
  EXPECT_THAT(found.job_lines, ElementsAre("kind: cifar10", "dir: " + dir_.path().string()));
}

TEST_F(DescribeTest, FoldersOfImagesNameTheirClasses) {
  Write("train/cat/a.png", PngOf(1, 1, 2, "\xff\xff\xff"));
  Write("train/dog/a.png", PngOf(1, 1, 2, std::string(3, '\0')));
  Write("train/dog/b.png", PngOf(1, 1, 2, std::string(3, '\0')));
  const Description found = Described(dir_.path());
  EXPECT_THAT(found.classes, ElementsAre("cat", "dog"));
  EXPECT_THAT(found.class_counts, ElementsAre(1, 2));
  EXPECT_THAT(found.mean[0], DoubleNear(1.0 / 3, 1e-6));
  EXPECT_EQ(found.measured, 3);
  EXPECT_EQ(found.job_lines[0], "kind: imageFolder");
}

TEST_F(DescribeTest, ATableHasTheColumnOfItsLabels) {
  const Description found = Described(Write("a.csv", "class;x;y\n1;2;3\n0;4;9\n"));
  EXPECT_EQ(found.format, Format::kCsvFile);
  EXPECT_EQ(found.samples, 2);
  EXPECT_THAT(found.mean, ElementsAre(3, 6));
  EXPECT_THAT(found.job_lines, ElementsAre("kind: csv", "train: [" + path("a.csv") + "]",
                                           "csv: {labels: 'class', delimiter: \";\"}",
                                           "validation: 0.1", "mean: [3, 6]", "std: [1, 3]"));
  EXPECT_EQ(Described(Write("b.csv", "x,y\n1,0.5\n2,0.7\n")).job_lines[2], "csv: {targets: ['y']}");
}

TEST_F(DescribeTest, AnArrayNeedsTheAbsolutePathOfItsLabels) {
  Write("x.npy", Npy("|u1", "(2, 2)", "abcd"));
  EXPECT_EQ(Described(path("x.npy")).job_lines[1],
            "arrays: {train: {inputs: " + path("x.npy") +
                ", labels: /LABELS.npy}}  # put the path of the labels here");
}

TEST_F(DescribeTest, TextThatYamlWouldReadAsSomethingElseStandsInQuotes) {
  EXPECT_EQ(Described(Write("a, b.txt", "To be")).job_lines[1],
            "train: ['" + path("a, b.txt") + "']");
  EXPECT_EQ(Described(Write("o'b: c].txt", "To be")).job_lines[1],
            "train: ['" + path("o''b: c].txt") + "']");
  EXPECT_EQ(Described(Write("a\n\"b.txt", "To be")).job_lines[1],
            "train: [\"" + path("a\\x0a\\\"b.txt") + "\"]");
  EXPECT_EQ(Described(Write("a.csv", "x,it's\n1,0\n")).job_lines[2], "csv: {labels: 'it''s'}");
}

TEST_F(DescribeTest, TextsAndTokensAreCounted) {
  const Description text = Described(Write("a.txt", "To be, or not to be"));
  EXPECT_EQ(text.format, Format::kText);
  EXPECT_EQ(text.samples, 19);
  EXPECT_THAT(text.shape, IsEmpty());
  const Description tokens = Described(Write("a.bin", "abcdef"));
  EXPECT_EQ(tokens.format, Format::kTokenFile);
  EXPECT_EQ(tokens.samples, 3);
  EXPECT_EQ(tokens.job_lines[0], "kind: tokens");
}

TEST_F(DescribeTest, WhatTrainingRefusesInTheTestSetIsAnError) {
  Write("train/cat/a.png", PngOf(1, 1, 2, std::string(3, '\0')));
  Write("val/wolf/a.png", PngOf(1, 1, 2, std::string(3, '\0')));
  EXPECT_THAT(ErrorOf(dir_.path()), HasSubstr("val/wolf: the training set has no such class"));
  Write("cifar/data_batch_1.bin", "\7" + std::string(3072, '\0'));
  Write("cifar/test_batch.bin", "\x0c" + std::string(3072, '\0'));
  EXPECT_THAT(ErrorOf(path("cifar")), HasSubstr("test_batch.bin: record 0 has label 12"));
  const std::string images = std::string("\0\0\x08\3\0\0\0\1\0\0\0\1\0\0\0\1x", 17);
  for (const char* name : {"idx/train-images-idx3-ubyte", "idx/t10k-images-idx3-ubyte"}) {
    Write(name, images);
  }
  Write("idx/train-labels-idx1-ubyte", std::string("\0\0\x08\1\0\0\0\1\2", 9));
  Write("idx/t10k-labels-idx1-ubyte", std::string("\0\0\x08\1\0\0\0\2\2\2", 10));
  EXPECT_THAT(ErrorOf(path("idx")), HasSubstr("t10k-labels-idx1-ubyte has 2"));
}

TEST_F(DescribeTest, ADirectoryThatMayNotBeReadSaysSo) {
  std::filesystem::create_directory(path("closed"));
  std::filesystem::permissions(dir_.path(), std::filesystem::perms(0711));
  std::filesystem::permissions(path("closed"), std::filesystem::perms(0100));
  const uid_t before =
      setfsuid(kNobody);  // the superuser may read all; the others stay who they are
  std::error_code error;
  (void)std::filesystem::directory_iterator(path("closed"), error);
  const std::string found = ErrorOf(path("closed"));
  setfsuid(before);
  if (!error) GTEST_SKIP() << "this user may read every directory";
  EXPECT_THAT(found, HasSubstr("Permission denied"));
}

TEST_F(DescribeTest, AnArrayOfTwoAxesIsAnImageAsInTraining) {
  const Description found = Described(Write("x.npy", Npy("|u1", "(1, 2, 2)", "abcd")));
  EXPECT_EQ(found.shape, (model::Shape{1, 2, 2}));
  EXPECT_EQ(found.mean.size(), 1u);
}

TEST_F(DescribeTest, ANumberThatIsNotFiniteIsNamed) {
  Write("x.npy", Npy("<f4", "(2, 1)", std::string("\0\0\x80\x3f\0\0\xc0\x7f", 8)));
  EXPECT_EQ(ErrorOf(path("x.npy")),
            path("x.npy") +
                ": sample 1 has nan at place 0; expected finite numbers; replace it, or leave the "
                "sample out");
}

TEST_F(DescribeTest, WhatIsNoDataSetIsNoText) {
  const auto error = [this](const std::string& name, const std::string& bytes) {
    return ErrorOf(Write(name, bytes));
  };
  EXPECT_THAT(error("a.png", PngOf(1, 1, 2, std::string(3, '\0'))), HasSubstr("is an image; put"));
  EXPECT_THAT(error("a.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10)),
              HasSubstr("is a file of weights"));
  EXPECT_THAT(error("a.csv", "x,label\n"), HasSubstr("has no line of numbers"));
  EXPECT_EQ(error("a.txt", ""), path("a.txt") + ": is empty");
  EXPECT_THAT(error("a.bin", "abc"), HasSubstr("has 3 bytes; tokens have two each"));
  EXPECT_THAT(error("a.dat", std::string("ab\0c", 4)), HasSubstr("is no text, as byte 2 is 0"));
}

TEST_F(DescribeTest, AnArrayOfWholeNumbersIsLabels) {
  const Description found = Described(Write("y.npy", Npy("|i1", "(3,)", std::string("\0\2\2", 3))));
  EXPECT_THAT(found.class_counts, ElementsAre(1, 0, 2));
  EXPECT_THAT(found.mean, IsEmpty());
  EXPECT_EQ(found.job_lines[1], "arrays: {train: {inputs: /INPUTS.npy, labels: " + path("y.npy") +
                                    "}}  # put the path of the inputs here");
}

TEST_F(DescribeTest, WhatCannotBeReadIsAnError) {
  EXPECT_TRUE(absl::IsNotFound(Describe(path("none")).status()));
  EXPECT_THAT(Describe(dir_.path()).status().message(),
              HasSubstr("has neither IDX files, nor CIFAR's binary files"));
}

}  // namespace
}  // namespace dp::data

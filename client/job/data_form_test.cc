#include "client/job/data_form.h"

#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/testing/scratch_dir.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

class DataFormTest : public testing::Test {
 protected:
  // The first bytes of a file of images with 28 rows and 30 columns each.
  static std::string Header(char magic = 3) {
    return {0, 0, 8, magic, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 30};
  }
  std::string path(const std::string& name) const { return (dir_.path() / name).string(); }
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  // An array of bytes, as numpy.save writes it.
  void WriteZeroes(const std::string& name, const std::string& shape, size_t bytes) {
    std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(117, ' ');
    Write(name, std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n" + std::string(bytes, '\0'));
  }
  std::optional<SampleForm> Form(const std::string& dir = "") const {
    v1::DataSpec data;
    data.set_kind("images");
    data.set_dir(dir.empty() ? dir_.path().string() : dir);
    return FormOf(data);
  }

  ScratchDir dir_;
};

TEST_F(DataFormTest, AnImageHasTheRowsAndColumnsOfItsFile) {
  Write("train-images-idx3-ubyte", Header() + "pixels");
  EXPECT_EQ(Form()->shape, (model::Shape{1, 28, 30}));
  EXPECT_EQ(Form()->classes, 0);
}

TEST_F(DataFormTest, TheFileMayBeCompressed) {
  const gzFile file = gzopen((path("train-images-idx3-ubyte.gz")).c_str(), "wb");
  EXPECT_EQ(gzwrite(file, Header().data(), 16), 16);
  gzclose(file);
  EXPECT_EQ(Form()->shape, (model::Shape{1, 28, 30}));
}

TEST_F(DataFormTest, LabelsShowTheClasses) {
  Write("train-images-idx3-ubyte", Header());
  Write("train-labels-idx1-ubyte", std::string("\0\0\x08\1\0\0\0\2\7\3", 10));
  EXPECT_EQ(Form()->classes, 8);
}

TEST_F(DataFormTest, AFileThatIsMissingCutShortOrSomethingElseHasNoForm) {
  EXPECT_FALSE(Form("/no/such/dir").has_value());
  Write("train-images-idx3-ubyte", Header().substr(0, 15));
  EXPECT_FALSE(Form().has_value());
  Write("train-images-idx3-ubyte", Header(1));
  EXPECT_FALSE(Form().has_value());
}

TEST_F(DataFormTest, ATableHasItsInputs) {
  Write("a.csv", "x,y,label\n1,2,0\n");
  v1::DataSpec data;
  data.set_kind("csv");
  EXPECT_FALSE(FormOf(data).has_value());
  data.add_train(path("a.csv"));
  data.mutable_csv()->set_labels("label");
  EXPECT_EQ(FormOf(data)->shape, (model::Shape{2}));
}

TEST_F(DataFormTest, AFolderHasItsSizeAndClasses) {
  v1::DataSpec data;
  data.set_kind("imageFolder");
  data.set_dir(dir_.path());
  EXPECT_FALSE(FormOf(data).has_value());
  data.add_size(8);
  data.add_size(9);
  data.set_channels(1);
  EXPECT_EQ(FormOf(data)->shape, (model::Shape{1, 8, 9}));
  EXPECT_EQ(FormOf(data)->classes, 0);
  for (const char* name : {"train/a", "train/b"}) {
    std::filesystem::create_directories(dir_.path() / name);
  }
  EXPECT_EQ(FormOf(data)->classes, 2);
}

TEST_F(DataFormTest, SyntheticSamplesHaveTheFormOfTheJob) {
  v1::DataSpec data;
  data.set_kind("synthetic");
  data.set_classes(3);
  data.mutable_synthetic()->add_shape(5);
  EXPECT_EQ(FormOf(data)->shape, (model::Shape{5}));
  EXPECT_EQ(FormOf(data)->classes, 3);
}

TEST_F(DataFormTest, TargetsOfArraysHaveTheAxesOfTheirFile) {
  v1::DataSpec data;
  data.set_kind("arrays");
  WriteZeroes("x.npy", "(2, 5)", 10);
  WriteZeroes("y.npy", "(2, 3, 4)", 24);
  data.mutable_arrays()->mutable_train()->set_inputs(path("x.npy"));
  data.mutable_arrays()->mutable_train()->set_targets(path("y.npy"));
  EXPECT_EQ(FormOf(data)->shape, (model::Shape{5}));
  EXPECT_EQ(FormOf(data)->targets, (model::Shape{3, 4}));
  WriteZeroes("y.npy", "(2,)", 2);
  EXPECT_EQ(FormOf(data)->targets, (model::Shape{1}));
  data.mutable_arrays()->mutable_train()->set_targets(path("none.npy"));
  EXPECT_FALSE(FormOf(data).has_value());
}

TEST_F(DataFormTest, ArraysOfTwoAxesAreMarked) {
  v1::DataSpec data;
  data.set_kind("arrays");
  WriteZeroes("x.npy", "(2, 4, 3)", 24);
  WriteZeroes("y.npy", "(2,)", 2);
  data.mutable_arrays()->mutable_train()->set_inputs(path("x.npy"));
  data.mutable_arrays()->mutable_train()->set_labels(path("y.npy"));
  EXPECT_EQ(FormOf(data)->shape, (model::Shape{1, 4, 3}));
  EXPECT_TRUE(FormOf(data)->two_axes);
  WriteZeroes("x.npy", "(2, 1, 4, 3)", 24);
  EXPECT_FALSE(FormOf(data)->two_axes);
}

TEST_F(DataFormTest, ATableHasATargetForEachOfTheirColumns) {
  v1::DataSpec data;
  data.set_kind("csv");
  Write("a.csv", "x,p,y,q\n1,2,3,4\n");
  data.add_train(path("a.csv"));
  data.mutable_csv()->add_targets("q");
  data.mutable_csv()->add_targets("p");
  EXPECT_EQ(FormOf(data)->shape, (model::Shape{2}));
  EXPECT_EQ(FormOf(data)->targets, (model::Shape{2}));
  data.mutable_csv()->clear_targets();
  data.mutable_csv()->set_labels("q");
  EXPECT_TRUE(FormOf(data)->targets.empty());
}

TEST_F(DataFormTest, ImagesOfCifarHaveOneForm) {
  v1::DataSpec data;
  data.set_kind("cifar100");
  EXPECT_EQ(FormOf(data)->shape, (model::Shape{3, 32, 32}));
  EXPECT_EQ(FormOf(data)->classes, 100);
}

}  // namespace
}  // namespace dp::client

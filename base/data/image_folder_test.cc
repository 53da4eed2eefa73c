#include "base/data/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/data/cifar_file.h"
#include "base/data/idx_file.h"
#include "base/data/recognize.h"
#include "base/data/testing/png_file.h"
#include "base/testing/scratch_dir.h"

namespace dp::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ImageFolderTest : public testing::Test {
 protected:
  void Touch(const std::string& name) { WriteFile(dir_.path() / name, "x"); }
  std::string ErrorOf(Split split = Split::kTrain) const {
    return std::string(ListImageFolder(dir_.path(), split).status().message());
  }
  // Without the directory.
  std::vector<std::string> Files(const ImageFolder& folder) const {
    std::vector<std::string> files;
    for (const std::string& file : folder.files) {
      files.push_back(file.substr(dir_.path().string().size() + 1));
    }
    return files;
  }

  ScratchDir dir_;
};

TEST_F(ImageFolderTest, ClassesAndFilesAreInTorchvisionsOrder) {
  for (const char* name :
       {"train/dog/b.jpg", "train/dog/a.PNG", "train/dog/10.jpeg", "train/dog/sub/0.png",
        "train/cat/z.png", "train/Ant/q.png", "train/dog/notes.txt"}) {
    Touch(name);
  }
  const auto folder = ListImageFolder(dir_.path(), Split::kTrain);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_THAT(folder->classes, ElementsAre("Ant", "cat", "dog"));
  EXPECT_THAT(Files(*folder),
              ElementsAre("train/Ant/q.png", "train/cat/z.png", "train/dog/10.jpeg",
                          "train/dog/a.PNG", "train/dog/b.jpg", "train/dog/sub/0.png"));
  EXPECT_THAT(folder->labels, ElementsAre(0, 1, 2, 2, 2, 2));
}

TEST_F(ImageFolderTest, TheTestHasTheClassesOfTheTrainingSet) {
  Touch("train/a/1.png");
  Touch("train/b/1.png");
  Touch("val/b/1.png");
  const auto folder = ListImageFolder(dir_.path(), Split::kTest);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_THAT(folder->labels, ElementsAre(1));
  Touch("val/c/1.png");
  EXPECT_THAT(ErrorOf(Split::kTest), HasSubstr("val/c: the training set has no such class"));
}

TEST_F(ImageFolderTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(ErrorOf(), HasSubstr("has no folder train; it must be there on the host"));
  std::filesystem::create_directories(dir_.path() / "train");
  EXPECT_THAT(ErrorOf(), HasSubstr("train: has no folders; put the images of each class"));
  EXPECT_THAT(ErrorOf(Split::kTest), HasSubstr("has no folder test or val"));
  Touch("train/a/notes.txt");
  EXPECT_THAT(ErrorOf(), HasSubstr("train/a: has no PNG or JPEG image"));
}

TEST_F(ImageFolderTest, ClassesWithoutAFolderTrainAreToMove) {
  Touch("cat/1.png");
  EXPECT_THAT(ErrorOf(), HasSubstr("if its folders are classes, as cat, move them into " +
                                   dir_.path().string() + "/train"));
  EXPECT_THAT(Recognize(dir_.path()).status().message(), HasSubstr("as cat, move them into"));
}

TEST_F(ImageFolderTest, ADirectoryThatIsAFileSaysSo) {
  Touch("a.png");
  const std::string file = dir_.path() / "a.png";
  const std::string found = "data directory " + file + " is a file; give the directory";
  EXPECT_THAT(ListImageFolder(file, Split::kTrain).status().message(), HasSubstr(found));
  EXPECT_THAT(ReadCifarSet(file, Cifar::k10, Split::kTrain).status().message(), HasSubstr(found));
  EXPECT_THAT(ReadIdxSet(file, Split::kTrain).status().message(), HasSubstr(found));
}

TEST_F(ImageFolderTest, AnImageOfAnotherFormatIsNotLeftOutSilently) {
  Touch("train/a/1.png");
  Touch("train/a/2.WebP");
  EXPECT_THAT(ErrorOf(), HasSubstr("train/a/2.WebP: only PNG and JPEG images are read"));
}

}  // namespace
}  // namespace dp::data

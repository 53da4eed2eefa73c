#include "base/replace_file.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "base/testing/scratch_dir.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

class ReplaceFileTest : public ::testing::Test {
 protected:
  std::string Text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t FilesThere() const {
    const std::filesystem::directory_iterator files(scratch_.path());
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  const ScratchDir scratch_;
  const std::string path_ = scratch_.path() / "record";
};

TEST_F(ReplaceFileTest, TheNewTextIsThereAndNothingElse) {
  EXPECT_TRUE(ReplaceFile(path_, "one"));
  EXPECT_TRUE(ReplaceFile(path_, "two"));
  EXPECT_EQ(Text(), "two");
  EXPECT_EQ(FilesThere(), 1u);
}

TEST_F(ReplaceFileTest, WhereItCannotBeReplacedTheOldOneStays) {
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(ReplaceFile(path_, "one"));
  EXPECT_TRUE(std::filesystem::is_directory(path_));
  EXPECT_EQ(FilesThere(), 1u);
}

TEST_F(ReplaceFileTest, WhatIsLeftOfAnInterruptedReplacementGoesToo) {
  ASSERT_TRUE(ReplaceFile(path_, "one"));
  std::ofstream(path_ + ".new") << "half";
  RemoveReplacedFile(path_);
  EXPECT_EQ(FilesThere(), 0u);
}

}  // namespace
}  // namespace dp

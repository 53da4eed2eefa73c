#include <sys/stat.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

TEST(TestMainTest, TheTemporaryFolderIsEmptyAndOfThisProcessAlone) {
  struct stat folder {};
  ASSERT_EQ(stat(::testing::TempDir().c_str(), &folder), 0);
  EXPECT_EQ(folder.st_mode & 0777, 0700u);
  EXPECT_THAT(::testing::TempDir(), ::testing::HasSubstr("/dp-test-"));
  EXPECT_TRUE(std::filesystem::is_empty(::testing::TempDir()));
}

}  // namespace

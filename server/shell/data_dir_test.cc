#include "server/shell/data_dir.h"

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shell/scratch_dir.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

TEST(DataDirTest, IsCreatedWhereItIsMissing) {
  const ScratchDir scratch;
  const auto dir = DataDir::Open(scratch.path() / "a" / "b");
  ASSERT_TRUE(dir.ok()) << dir.status();
  EXPECT_TRUE(std::filesystem::is_directory(dir->logs()));
}

TEST(DataDirTest, ASecondHolderIsRefusedAndToldWhoHoldsIt) {
  const ScratchDir scratch;
  const auto first = DataDir::Open(scratch.path());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = DataDir::Open(scratch.path());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("is in use by process " + std::to_string(getpid())));
}

TEST(DataDirTest, IsFreeAgainOnceLetGo) {
  const ScratchDir scratch;
  { ASSERT_TRUE(DataDir::Open(scratch.path()).ok()); }
  EXPECT_TRUE(DataDir::Open(scratch.path()).ok());
}

TEST(DataDirTest, APathThatIsNoDirectoryIsRefusedByName) {
  const ScratchDir scratch;
  const std::filesystem::path file = scratch.path() / "file";
  std::ofstream(file) << "x";
  const auto dir = DataDir::Open(file);
  EXPECT_EQ(dir.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr(file.string()));
}

}  // namespace
}  // namespace dp::server

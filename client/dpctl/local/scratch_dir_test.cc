#include "client/dpctl/local/scratch_dir.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

namespace fs = std::filesystem;

// Each test has a temporary directory of its own.
class ScratchDirTest : public ::testing::Test {
 protected:
  ScratchDirTest() {
    const char* before = getenv("TMPDIR");
    if (before != nullptr) before_ = before;
    std::string name = (fs::temp_directory_path() / "scratch-test-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    parent_ = name;
    setenv("TMPDIR", name.c_str(), 1);
  }
  ~ScratchDirTest() override {
    before_ ? setenv("TMPDIR", before_->c_str(), 1) : unsetenv("TMPDIR");
    fs::remove_all(parent_);
  }
  // Makes a directory as a killed process leaves it.
  fs::path Leave(const std::string& name, bool with_lock) {
    const fs::path directory = parent_ / name;
    fs::create_directories(directory / "data");
    if (with_lock) std::ofstream(directory / "lock") << "";
    return directory;
  }

  fs::path parent_;
  std::optional<std::string> before_;
};

TEST_F(ScratchDirTest, ItGoesWithItsObject) {
  {
    ScratchDir scratch;
    ASSERT_TRUE(scratch.Make().ok());
    std::ofstream(scratch.Of("file")) << "text";
    EXPECT_TRUE(fs::exists(scratch.Of("file")));
  }
  EXPECT_TRUE(fs::is_empty(parent_));
}

TEST_F(ScratchDirTest, AnEmptyVariableIsAsNone) {
  setenv("TMPDIR", "", 1);
  ScratchDir scratch;
  EXPECT_TRUE(scratch.Make().ok());
  EXPECT_EQ(getenv("TMPDIR"), nullptr);
}

TEST_F(ScratchDirTest, WhatAProcessThatWasKilledLeftGoesWhenTheNextIsMade) {
  const fs::path left = Leave("dpctl-local-AAAAAA", /*with_lock=*/true);
  ScratchDir scratch;
  ASSERT_TRUE(scratch.Make().ok());
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(ScratchDirTest, WhatIsInUseOrNotItsOwnStays) {
  ScratchDir used;
  ASSERT_TRUE(used.Make().ok());
  const fs::path without_lock = Leave("dpctl-local-BBBBBB", /*with_lock=*/false);
  const fs::path another = Leave("another-CCCCCC", /*with_lock=*/true);
  fs::create_directory_symlink(another, parent_ / "dpctl-local-DDDDDD");
  ScratchDir scratch;
  ASSERT_TRUE(scratch.Make().ok());
  EXPECT_TRUE(fs::exists(used.Of("lock")));
  EXPECT_TRUE(fs::exists(without_lock));
  EXPECT_TRUE(fs::exists(another));
}

}  // namespace
}  // namespace dp::ctl

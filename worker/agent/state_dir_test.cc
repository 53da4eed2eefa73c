#include "worker/agent/state_dir.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;

class StateDirTest : public testing::Test {
 protected:
  TemporaryDirectory parent_;
  const std::string path_ = parent_.path() + "/a/b";
};

TEST_F(StateDirTest, ItIsMadeAndRemovedAgainWhenEmpty) {
  {
    const auto state = StateDir::Open(path_);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_TRUE(std::filesystem::exists(path_));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(StateDirTest, WhatIsLeftInItStays) {
  {
    const auto state = StateDir::Open(path_);
    std::ofstream(path_ + "/log") << "not sent";
  }
  EXPECT_TRUE(std::filesystem::exists(path_ + "/log"));
}

TEST_F(StateDirTest, TwoDaemonsCannotShareIt) {
  const auto one = StateDir::Open(path_);
  const auto two = StateDir::Open(path_);
  EXPECT_THAT(std::string(two.status().message()), HasSubstr("in use by another dp-worker"));
}

TEST_F(StateDirTest, WithoutAPathEachDaemonHasOneOfItsOwn) {
  setenv("XDG_STATE_HOME", parent_.path().c_str(), 1);
  const auto one = StateDir::Open("");
  const auto two = StateDir::Open("");
  unsetenv("XDG_STATE_HOME");
  EXPECT_THAT(one->path(), HasSubstr(parent_.path() + "/dp/worker-"));
  EXPECT_NE(one->path(), two->path());
}

TEST_F(StateDirTest, APlaceThatCannotBeMadeIsNamed) {
  std::ofstream(parent_.path() + "/file").close();
  const auto state = StateDir::Open(parent_.path() + "/file/state");
  EXPECT_THAT(std::string(state.status().message()), HasSubstr("/file/state"));
}

}  // namespace
}  // namespace dp::worker

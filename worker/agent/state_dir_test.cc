#include "worker/agent/state_dir.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/processes/guard_lock.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;

constexpr char kStateCoordinator[] = "10.0.0.1:7070";

class StateDirTest : public testing::Test {
 protected:
  TemporaryDirectory parent_;
  const std::string path_ = parent_.path() + "/a/b";
};

TEST_F(StateDirTest, ItIsMadeAndRemovedAgainWhenEmpty) {
  {
    const auto state = StateDir::Open(path_, kStateCoordinator);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_TRUE(std::filesystem::exists(path_));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(StateDirTest, RanksOfOtherUsersPassThroughItOnceItIsOpened) {
  std::filesystem::permissions(parent_.path(), std::filesystem::perms(0711));
  const auto state = StateDir::Open(path_, kStateCoordinator);
  std::filesystem::create_directory(path_ + "/spool");
  for (const char* dir : {"", "/spool"}) {
    std::filesystem::permissions(path_ + dir, std::filesystem::perms(0700));
  }
  EXPECT_EQ(state->OpenToOtherUsers(), absl::OkStatus());
  for (const char* dir : {"", "/spool"}) {
    EXPECT_EQ(std::filesystem::status(path_ + dir).permissions(), std::filesystem::perms(0711));
  }
}

TEST_F(StateDirTest, ADirectoryAboveThatIsClosedToOthersIsNamedWithTheRemedy) {
  const auto state = StateDir::Open(path_, kStateCoordinator);
  EXPECT_THAT(
      std::string(state->OpenToOtherUsers().message()),
      testing::AllOf(HasSubstr("pass through " + parent_.path()), HasSubstr("--state-dir")));
}

TEST_F(StateDirTest, ADirectoryThatAnotherUserCouldChangeIsNotOpened) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  const auto state = StateDir::Open(path_, kStateCoordinator);
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_THAT(std::string(state->OpenToOtherUsers().message()), HasSubstr("uid 12345"));
}

TEST_F(StateDirTest, WhatIsLeftInItStays) {
  {
    const auto state = StateDir::Open(path_, kStateCoordinator);
    std::ofstream(path_ + "/log") << "not sent";
  }
  EXPECT_TRUE(std::filesystem::exists(path_ + "/log"));
}

TEST_F(StateDirTest, TwoDaemonsCannotShareIt) {
  const auto one = StateDir::Open(path_, kStateCoordinator);
  const auto two = StateDir::Open(path_, kStateCoordinator);
  EXPECT_THAT(std::string(two.status().message()), HasSubstr("in use by another dp-worker"));
}

TEST_F(StateDirTest, WithoutAPathEachDaemonHasOneOfItsOwn) {
  setenv("XDG_STATE_HOME", parent_.path().c_str(), 1);
  const auto one = StateDir::Open("", kStateCoordinator);
  const auto two = StateDir::Open("", kStateCoordinator);
  unsetenv("XDG_STATE_HOME");
  EXPECT_THAT(one->path(), HasSubstr(parent_.path() + "/dp/worker-"));
  EXPECT_NE(one->path(), two->path());
}

TEST_F(StateDirTest, ADaemonTakesOverWhatOneOfTheSameCoordinatorHasLeft) {
  setenv("XDG_STATE_HOME", parent_.path().c_str(), 1);
  std::string left;
  {
    const auto killed = StateDir::Open("", kStateCoordinator);
    left = killed->path();
    std::ofstream(left + "/log") << "not sent";
  }
  const auto other = StateDir::Open("", "10.0.0.2:7070");
  const auto heir = StateDir::Open("", kStateCoordinator);
  const auto third = StateDir::Open("", kStateCoordinator);
  unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(heir->path(), left);
  EXPECT_NE(other->path(), left);
  EXPECT_NE(third->path(), left);
}

// Its owner could put a credential or a spool of their own into it.
TEST_F(StateDirTest, ADaemonTakesOverNothingOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  const std::string temporary = parent_.path() + "/tmp";
  const std::string planted = parent_.path() + "/dp/worker-planted";
  std::filesystem::create_directories(planted);
  std::filesystem::create_directory(temporary);
  std::ofstream(planted + "/lock") << kStateCoordinator;
  setenv("XDG_STATE_HOME", parent_.path().c_str(), 1);
  setenv("TMPDIR", temporary.c_str(), 1);
  ASSERT_EQ(chown(planted.c_str(), 12345, 12345), 0);
  EXPECT_NE(StateDir::Open("", kStateCoordinator)->path(), planted);
  ASSERT_EQ(chown((parent_.path() + "/dp").c_str(), 12345, 12345), 0);
  EXPECT_THAT(StateDir::Open("", kStateCoordinator)->path(), HasSubstr(temporary));
  unsetenv("TMPDIR");
  unsetenv("XDG_STATE_HOME");
}

TEST_F(StateDirTest, ADirectoryThatOthersCanWriteIsRefusedAndLeftAsItIs) {
  std::filesystem::create_directories(path_ + "/spool");
  std::filesystem::permissions(path_, std::filesystem::perms(0777));
  const auto state = StateDir::Open(path_, kStateCoordinator);
  EXPECT_EQ(state.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(state.status().message()),
              testing::AllOf(HasSubstr("state directory " + path_ + " is not used: " + path_),
                             HasSubstr("mode 0777) can be written by other users"),
                             HasSubstr("'chmod go-w " + path_ + "'"), HasSubstr("--state-dir")));
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0777));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/lock"));
  EXPECT_TRUE(StateDir::Open(path_, kStateCoordinator, /*accept_other_users=*/true).ok());
}

TEST_F(StateDirTest, ADirectoryBelowOneThatOthersCanWriteIsRefused) {
  std::filesystem::create_directory(parent_.path() + "/a");
  std::filesystem::permissions(parent_.path() + "/a", std::filesystem::perms(0777));
  EXPECT_THAT(std::string(StateDir::Open(path_, kStateCoordinator).status().message()),
              HasSubstr(parent_.path() + "/a (of user "));
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::filesystem::permissions(parent_.path() + "/a", std::filesystem::perms(01777));
  EXPECT_TRUE(StateDir::Open(path_, kStateCoordinator).ok());
}

TEST_F(StateDirTest, PartsOfItThatAnotherUserMadeAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  std::filesystem::create_directories(path_ + "/spool/3/1");
  std::filesystem::create_directory(path_ + "/credential");
  for (const char* part : {"", "/spool", "/spool/3", "/spool/3/1", "/credential"}) {
    ASSERT_EQ(chown((path_ + part).c_str(), 12345, 12345), 0);
    EXPECT_THAT(std::string(StateDir::Open(path_, kStateCoordinator).status().message()),
                HasSubstr(path_ + part + " (mode 0755) belongs to another user, user 12345"));
    ASSERT_EQ(chown((path_ + part).c_str(), 0, 0), 0);
  }
  EXPECT_TRUE(StateDir::Open(path_, kStateCoordinator).ok());
}

TEST_F(StateDirTest, WithoutAPathADirectoryBelowOneThatOthersCanWriteIsNotChosen) {
  const std::string temporary = parent_.path() + "/tmp";
  std::filesystem::create_directory(temporary);
  std::filesystem::create_directory(parent_.path() + "/dp");
  std::filesystem::permissions(parent_.path() + "/dp", std::filesystem::perms(0777));
  setenv("XDG_STATE_HOME", parent_.path().c_str(), 1);
  setenv("TMPDIR", temporary.c_str(), 1);
  EXPECT_THAT(StateDir::Open("", kStateCoordinator)->path(), HasSubstr(temporary));
  unsetenv("TMPDIR");
  unsetenv("XDG_STATE_HOME");
}

// A killed daemon may leave the third file.
constexpr const char* kForTheNext[] = {kIncarnationsName, kGuardsName, kNewIncarnationsName};

TEST_F(StateDirTest, ADirectoryThatNobodyNamedIsRemovedWithWhatItHoldsForTheNextDaemon) {
  setenv("XDG_STATE_HOME", parent_.path().c_str(), 1);
  std::string path;
  {
    const auto state = StateDir::Open("", kStateCoordinator);
    path = state->path();
    for (const char* name : kForTheNext) std::ofstream(path + name) << "x";
  }
  unsetenv("XDG_STATE_HOME");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(StateDirTest, ANamedDirectoryKeepsWhatItHoldsForTheNextDaemon) {
  {
    const auto state = StateDir::Open(path_, kStateCoordinator);
    for (const char* name : kForTheNext) std::ofstream(path_ + name) << "x";
  }
  for (const char* name : kForTheNext) EXPECT_TRUE(std::filesystem::exists(path_ + name)) << name;
}

TEST_F(StateDirTest, ADaemonThatNeverRegisteredLeavesNothing) {
  {
    const auto state = StateDir::Open(path_, kStateCoordinator);
    const auto guards = GuardLock::Open(path_);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(StateDirTest, ADirectoryThatWasThereBeforeStays) {
  std::filesystem::create_directories(path_);
  {
    const auto state = StateDir::Open(path_, kStateCoordinator);
    const auto guards = GuardLock::Open(path_);
  }
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(StateDirTest, TheLockOfGuardsThatRunStays) {
  std::optional<GuardLock> guards;
  {
    const auto state = StateDir::Open(path_, kStateCoordinator);
    guards = *GuardLock::Open(path_);
  }
  EXPECT_TRUE(std::filesystem::exists(path_ + kGuardsName));
}

TEST_F(StateDirTest, APlaceThatCannotBeMadeIsNamed) {
  std::ofstream(parent_.path() + "/file").close();
  const auto state = StateDir::Open(parent_.path() + "/file/state", kStateCoordinator);
  EXPECT_THAT(std::string(state.status().message()), HasSubstr("/file/state"));
  EXPECT_THAT(std::string(state.status().message()), HasSubstr("--state-dir"));
}

}  // namespace
}  // namespace dp::worker

#include "worker/agent/sandbox/private_tmps.h"

#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "worker/agent/sandbox/mounts.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

constexpr JobId kJob(7);
constexpr Generation kFirst(1);
constexpr Generation kSecond(2);

class PrivateTmpsTest : public testing::Test {
 protected:
  void Open() {
    tmps_.emplace(directory_.path(), [this] {
      const bool gone = earlier_gone_;
      asked_ = true;
      return gone;
    });
  }
  fs::path Made(Generation generation, const RankMounts& mounts = {}) {
    EXPECT_EQ(tmps_->Make(kJob, generation, mounts), absl::OkStatus());
    return tmps_->PathOf(kJob, generation);
  }
  static void Await(const std::function<bool()>& done) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (!done()) {
      ASSERT_LT(absl::Now(), deadline);
      std::this_thread::yield();
    }
  }
  static void AwaitRemoved(const fs::path& path) {
    Await([&path] { return !fs::exists(path); });
  }
  static mode_t ModeOf(const fs::path& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
  }

  const TemporaryDirectory directory_;
  const fs::path dir_ = directory_.path() + kPrivateTmpsName;
  std::atomic<bool> earlier_gone_ = true;
  std::atomic<bool> asked_ = false;
  std::optional<PrivateTmps> tmps_;
};

TEST_F(PrivateTmpsTest, TheRanksOfAGenerationShareOneAndOthersHaveTheirOwn) {
  Open();
  const fs::path first = Made(kFirst);
  EXPECT_EQ(Made(kFirst), first);
  EXPECT_NE(Made(kSecond), first);
}

TEST_F(PrivateTmpsTest, ItIsAsOpenAsTheHostsWithinAClosedDirectoryWhateverTheUmaskIs) {
  const mode_t before = umask(077);
  Open();
  const fs::path made = Made(kFirst);
  umask(before);
  EXPECT_EQ(ModeOf(dir_), 0700u);
  EXPECT_EQ(ModeOf(made), 0700u);
  for (const TmpPlace& place : TmpPlaces()) EXPECT_EQ(ModeOf(made / place.name), 01777u);
}

TEST_F(PrivateTmpsTest, ItIsRemovedAfterItsRanksWithAllThatTheyLeft) {
  Open();
  const fs::path first = Made(kFirst);
  const fs::path second = Made(kSecond);
  std::ofstream(first / "tmp/file") << "x";
  tmps_->RanksGone(kJob, kFirst);
  AwaitRemoved(first);
  EXPECT_TRUE(fs::exists(second));
  tmps_->RanksGone(kJob, kFirst);  // a no-op
  tmps_.reset();
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(PrivateTmpsTest, WhatAnEarlierDaemonLeftIsRemovedOnceItsRanksAreGone) {
  fs::create_directories(dir_ / "7.1.abcdef/tmp/left");
  earlier_gone_ = false;
  Open();
  const fs::path made = Made(kFirst);
  EXPECT_FALSE(fs::equivalent(made, dir_ / "7.1.abcdef"));
  Await([this] { return asked_.load(); });
  EXPECT_TRUE(fs::exists(dir_ / "7.1.abcdef/tmp/left"));
  earlier_gone_ = true;
  AwaitRemoved(dir_ / "7.1.abcdef");
  EXPECT_TRUE(fs::exists(made));
}

TEST_F(PrivateTmpsTest, OtherFilesOfTheStateDirectoryStay) {
  for (const char* other : {"notes", "7.1", "7.1.abc", "a.1.abcdef", "7.1.abcdef.old"}) {
    fs::create_directories(dir_ / other);
  }
  fs::create_directories(dir_ / "7.1.abcdef");
  Open();
  AwaitRemoved(dir_ / "7.1.abcdef");
  tmps_.reset();
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()), 5);
}

TEST_F(PrivateTmpsTest, ASourceThatCannotBeLookedAtDoesNotEndTheDaemon) {
  const std::string host = TmpPlaces().front().path;
  std::string shown = host + "/dp-shown-XXXXXX";
  ASSERT_NE(mkdtemp(shown.data()), nullptr);
  fs::create_symlink("loop", shown + "/loop");
  Open();
  const fs::path made = Made(kFirst, {.writable = {shown + "/loop"}});
  EXPECT_TRUE(fs::exists(made.string() + "/tmp" + shown.substr(host.size()) + "/loop"));
  fs::remove_all(shown);
}

TEST_F(PrivateTmpsTest, ItHasMountPointsForWhatStaysVisible) {
  const std::string host = TmpPlaces().front().path;
  std::string shown = host + "/dp-shown-XXXXXX";
  ASSERT_NE(mkdtemp(shown.data()), nullptr);
  fs::create_directories(shown + "/spool/7/1");
  std::ofstream(shown + "/trainer") << "x";
  const mode_t before = umask(077);
  Open();
  const fs::path made =
      Made(kFirst, {.writable = {shown + "/spool/7/1"}, .shown = {shown + "/trainer"}});
  umask(before);
  const fs::path inside = made.string() + "/tmp" + shown.substr(host.size());
  EXPECT_TRUE(fs::is_directory(inside / "spool/7/1"));
  EXPECT_TRUE(fs::is_regular_file(inside / "trainer"));
  EXPECT_EQ(ModeOf(inside), 0755u);  // ranks of other users pass through
  fs::remove_all(shown);
}

TEST_F(PrivateTmpsTest, AStateDirectoryThatCannotBeWrittenIsNamed) {
  std::ofstream(dir_.string()) << "a file";
  Open();
  const absl::Status made = tmps_->Make(kJob, kFirst, {});
  EXPECT_TRUE(absl::StrContains(made.message(), dir_.string())) << made;
}

}  // namespace
}  // namespace dp::worker

#include "worker/agent/spool/log_shipper.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/testing/settable_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fake_coordinator.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

const absl::Time kShippedJobAt = absl::FromUnixSeconds(100);

class LogShipperTest : public testing::Test {
 protected:
  LogShipperTest() {
    EXPECT_TRUE(spool_.Create({kShippedJobAt}).ok());
    Start(kSpoolBytesMax);
  }
  // Plays a restart of the daemon.
  void Start(uint64_t spool_bytes_max) {
    shipper_.reset();
    shipper_.emplace(coordinator_.connection(),
                     LogShipper::Options{.seed = 42,
                                         .spool_bytes_max = spool_bytes_max,
                                         .spool_disk = [this] { return disk_; },
                                         .clock = clock_},
                     [this](const LogsNews& news) {
                       bool all = news.all;
                       if (all) all_shipped_.TryPush(all);
                       RankKey refused = news.key;
                       if (news.refused) refused_.TryPush(refused);
                     });
    shipper_->Use({5, Incarnation(9)});
  }
  ~LogShipperTest() override { coordinator_.CancelAll(); }

  void Write(const std::string& text, v1::LogStream stream = v1::LOG_STREAM_STDOUT) {
    std::ofstream(spool_.path(stream), std::ios::app) << text;
  }
  // Waits until the spool file of standard output occupies less disk than its length.
  void AwaitFreed(uint64_t size) {
    struct stat info {};
    const absl::Time deadline = Clock::Steady().Now() + absl::Seconds(30);
    do {
      coordinator_.AwaitRefusals(1);  // they recur at the pace of the back-off
      ASSERT_EQ(stat(spool_.path(v1::LOG_STREAM_STDOUT).c_str(), &info), 0);
    } while (static_cast<uint64_t>(info.st_blocks) * 512 >= size &&
             Clock::Steady().Now() < deadline);
  }
  bool AwaitAllShipped() { return !all_shipped_.DrainFor(absl::Seconds(20)).empty(); }

  const RankKey key_{JobId(1), Generation(1), 0};
  TemporaryDirectory directory_;
  SettableClock clock_;
  DiskSpace disk_;
  LogSpool spool_{directory_.path(), key_};
  FakeCoordinator coordinator_;
  BoundedQueue<bool> all_shipped_{10};
  BoundedQueue<RankKey> refused_{10};
  std::optional<LogShipper> shipper_;
};

TEST_F(LogShipperTest, EveryStreamIsSentAsItGrows) {
  shipper_->Follow(key_, spool_);
  Write("one\n");
  Write("{}\n", v1::LOG_STREAM_METRICS);
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\n"), "one\n");
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_METRICS, "{}\n"), "{}\n");
  Write("two\n");
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\ntwo\n"), "one\ntwo\n");
}

TEST_F(LogShipperTest, AnUnfinishedLineIsSentWhenTheRankIsGone) {
  Write("one\ntw");
  shipper_->Follow(key_, spool_);
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\n"), "one\n");
  shipper_->Finish(key_);
  EXPECT_TRUE(AwaitAllShipped());
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\ntw"), "one\ntw");
}

TEST_F(LogShipperTest, AHundredMegabytesWithoutANewlineAreSentInBoundedBatches) {
  constexpr size_t kSize = 100'000'000;
  std::filesystem::resize_file(spool_.path(v1::LOG_STREAM_STDOUT), kSize);
  shipper_->Follow(key_, spool_);
  shipper_->Finish(key_);
  EXPECT_TRUE(AwaitAllShipped());
  EXPECT_EQ(coordinator_.AwaitLogSize(v1::LOG_STREAM_STDOUT, kSize), kSize);
  EXPECT_LE(coordinator_.largest_batch(), size_t{1} << 20);
}

TEST_F(LogShipperTest, SendingGoesOnWhereItStoppedWhenTheCoordinatorIsBack) {
  shipper_->Follow(key_, spool_);
  Write("one\n");
  coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\n");
  coordinator_.SetReachable(false);
  Write("two\n");
  coordinator_.SetReachable(true);
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\ntwo\n"), "one\ntwo\n");
}

TEST_F(LogShipperTest, ACoordinatorThatHasLessThanItSaidIsSentItAgain) {
  shipper_->Follow(key_, spool_);
  Write("one\ntwo\n");
  coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\ntwo\n");
  coordinator_.LoseLogsBeyond(v1::LOG_STREAM_STDOUT, 4);
  Write("three\n");
  const std::string all = "one\ntwo\nthree\n";
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, all), all);
}

TEST_F(LogShipperTest, LogsOfAJobThatIsNotKnownAreGivenUp) {
  coordinator_.RefuseLogs(absl::NotFoundError("unknown job"));
  Write("one\n");
  shipper_->Follow(key_, spool_);
  shipper_->Finish(key_);
  EXPECT_TRUE(AwaitAllShipped());
}

TEST_F(LogShipperTest, ARankThatWroteNothingIsShippedAtOnce) {
  shipper_->Follow(key_, spool_);
  shipper_->Finish(key_);
  EXPECT_TRUE(AwaitAllShipped());
}

TEST_F(LogShipperTest, LogsOfARankThatTheJobDoesNotHaveAreGivenUp) {
  coordinator_.RefuseLogs(absl::InvalidArgumentError("no such rank"));
  Write("one\n");
  shipper_->Follow(key_, spool_);
  shipper_->Finish(key_);
  EXPECT_TRUE(AwaitAllShipped());
}

TEST_F(LogShipperTest, WhileTheCoordinatorHasNoRoomTheSpoolKeepsAll) {
  coordinator_.RefuseLogs(absl::ResourceExhaustedError("the disk is full"));
  Write("one\n");
  shipper_->Follow(key_, spool_);
  shipper_->Finish(key_);
  coordinator_.AwaitRefusals(2);
  coordinator_.RefuseLogs(absl::OkStatus());
  EXPECT_TRUE(AwaitAllShipped());
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\n"), "one\n");
}

TEST_F(LogShipperTest, ThatThereIsNoRoomIsToldOfRanksThatAreGone) {
  coordinator_.RefuseLogs(absl::ResourceExhaustedError("the disk is full"));
  Write("one\n");
  shipper_->Follow(key_, spool_);
  coordinator_.AwaitRefusals(4);
  EXPECT_TRUE(refused_.DrainFor(absl::ZeroDuration()).empty());  // the rank may still write
  shipper_->Finish(key_);
  const std::vector<RankKey> refused = refused_.DrainFor(absl::Seconds(20));
  ASSERT_FALSE(refused.empty());
  EXPECT_EQ(refused[0], key_);
  EXPECT_TRUE(all_shipped_.DrainFor(absl::ZeroDuration()).empty());
  coordinator_.RefuseLogs(absl::OkStatus());
  EXPECT_TRUE(AwaitAllShipped());
}

TEST_F(LogShipperTest, OnlyRefusalsForWantOfRoomInARowAreBelieved) {
  Write("one\n");
  shipper_->Follow(key_, spool_);
  shipper_->Finish(key_);
  const auto full = absl::ResourceExhaustedError("the disk is full");
  coordinator_.RefuseLogsInTurn({full, full, absl::UnavailableError("away"), full, full});
  EXPECT_TRUE(AwaitAllShipped());
  EXPECT_TRUE(refused_.DrainFor(absl::ZeroDuration()).empty());
}

TEST_F(LogShipperTest, WhatAnEarlierLifeLeftIsSentFromWhereItStopped) {
  shipper_->Follow(key_, spool_);
  Write("one\n");
  coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\n");
  coordinator_.SetReachable(false);
  Write("two\nthr");
  Start(kSpoolBytesMax);
  coordinator_.SetReachable(true);
  shipper_->FollowLeftOvers({{key_, spool_}});
  EXPECT_TRUE(AwaitAllShipped());
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\ntwo\nthr"), "one\ntwo\nthr");
  EXPECT_EQ(coordinator_.submitted_at(), kShippedJobAt);
}

TEST_F(LogShipperTest, TheCoordinatorIsToldWhereOutputLiesAndThatItIsWholeOnceAllIsStored) {
  shipper_->Follow(key_, spool_);
  Write("one\ntw");
  coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\n");
  std::vector<v1::RankOutput> told = coordinator_.told_of(0);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].spool() + ".out", spool_.path(v1::LOG_STREAM_STDOUT));
  EXPECT_FALSE(told[0].whole());
  shipper_->Finish(key_);
  EXPECT_TRUE(AwaitAllShipped());
  told = coordinator_.told_of(0);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(told[1].whole());
  EXPECT_EQ(coordinator_.log(v1::LOG_STREAM_STDOUT), "one\ntw");
}

TEST_F(LogShipperTest, InAnotherSessionTheCoordinatorIsToldAgain) {
  shipper_->Follow(key_, spool_);
  Write("one\n");
  coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\n");
  shipper_->Use({6, Incarnation(10)});
  Write("two\n");
  coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\ntwo\n");
  EXPECT_EQ(coordinator_.told_of(0).size(), 2u);
}

TEST_F(LogShipperTest, AnyNumberOfLeftOversIsTakenAtOnce) {
  constexpr int kMany = 20'000;
  std::map<RankKey, LogSpool> spools;
  for (int rank = 1; rank <= kMany; ++rank) {
    const RankKey key{JobId(3), Generation(1), rank};
    spools.emplace(key, LogSpool(directory_.path(), key));  // their files are gone
  }
  shipper_->FollowLeftOvers(std::move(spools));
  EXPECT_TRUE(AwaitAllShipped());
}

TEST_F(LogShipperTest, AStreamThatCannotBeOpenedIsSentWhenItCan) {
  const std::string path = spool_.path(v1::LOG_STREAM_STDOUT);
  std::filesystem::remove(path);
  std::filesystem::create_symlink(path, path);  // a loop
  Write("{}\n", v1::LOG_STREAM_METRICS);
  shipper_->FollowLeftOvers({{key_, spool_}});
  coordinator_.AwaitLog(v1::LOG_STREAM_METRICS, "{}\n");
  std::ofstream(path + ".mended") << "one\n";
  std::filesystem::rename(path + ".mended", path);
  EXPECT_TRUE(AwaitAllShipped());
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\n"), "one\n");
}

TEST_F(LogShipperTest, LinesCarryTheTimeAtWhichTheyWereFoundAndNotThatOfSending) {
  coordinator_.SetReachable(false);
  shipper_->Follow(key_, spool_);
  Write("one\n");
  coordinator_.AwaitRefusals(2);  // the line has been found
  // Bytes from before Follow get the time of the file; "two" gets that of the clock.
  Write("two\n");
  coordinator_.AwaitRefusals(2);
  const absl::Time found = clock_.Now();
  clock_.Advance(absl::Hours(1));
  coordinator_.SetReachable(true);
  coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\ntwo\n");
  EXPECT_EQ(coordinator_.found_at(v1::LOG_STREAM_STDOUT, 4), found);
}

TEST_F(LogShipperTest, PastTheBoundTheOldestBytesAreCutAndTheirNumberIsTold) {
  constexpr uint64_t kLines = 300'000;
  coordinator_.SetReachable(false);
  Start(/*spool_bytes_max=*/1 << 20);
  std::string text;
  for (uint64_t i = 0; i < kLines; ++i) absl::StrAppend(&text, absl::Dec(i, absl::kZeroPad6), "\n");
  Write(text);
  shipper_->Follow(key_, spool_);
  AwaitFreed(text.size());
  coordinator_.SetReachable(true);
  shipper_->Finish(key_);
  EXPECT_TRUE(AwaitAllShipped());
  // The fake coordinator fills gaps with '#'.
  const std::string stored = coordinator_.log(v1::LOG_STREAM_STDOUT);
  const size_t cut = stored.find_first_not_of('#');
  ASSERT_EQ(stored.size(), text.size());
  EXPECT_EQ(stored.substr(cut), text.substr(cut));
  EXPECT_EQ(cut % 7, 0u);  // whole lines
  EXPECT_GE(text.size() - cut, 512u << 10);
  EXPECT_LE(text.size() - cut, 1u << 20);
}

TEST_F(LogShipperTest, WhatARankHasEmptiedIsToldAsThat) {
  shipper_->Follow(key_, spool_);
  Write("one\n");
  coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\n");
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT)) << "2\n";
  // A look between emptying and writing makes the next one wait.
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "one\n#2\n"), "one\n#2\n");
  EXPECT_EQ(coordinator_.cut_reasons(), std::vector({v1::LOG_CUT_REASON_EMPTIED}));
}

TEST_F(LogShipperTest, OnADiskThatIsFullWhatTheCoordinatorHasIsGivenUp) {
  disk_ = {.capacity = 160 << 20, .available = 0};
  Start(kSpoolBytesMax);
  const std::string text(size_t{1} << 20, '\n');
  Write(text);
  shipper_->Follow(key_, spool_);
  coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, text);
  coordinator_.SetReachable(false);
  Write("more\n");  // causes calls to wait for
  AwaitFreed(text.size());
  coordinator_.SetReachable(true);
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, text + "more\n"), text + "more\n");
}

TEST_F(LogShipperTest, AJobThatFloodsDoesNotKeepAnotherFromBeingHeard) {
  // Rank 0 of job 2 has a line to send; many ranks of job 1 have much more than one batch.
  std::vector<LogSpool> spools;
  for (int rank = 1; rank <= 20; ++rank) {
    const RankKey flooding{JobId(1), Generation(1), rank};
    spools.emplace_back(directory_.path(), flooding);
    ASSERT_TRUE(spools.back().Create({kShippedJobAt}).ok());
    std::filesystem::resize_file(spools.back().path(v1::LOG_STREAM_STDOUT), 10'000'000'000);
    shipper_->Follow(flooding, spools.back());
  }
  const RankKey other{JobId(2), Generation(1), 0};
  const LogSpool quiet(directory_.path(), other);
  ASSERT_TRUE(quiet.Create({kShippedJobAt}).ok());
  std::ofstream(quiet.path(v1::LOG_STREAM_STDERR)) << "hello\n";
  shipper_->Follow(other, quiet);
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDERR, "hello\n"), "hello\n");
}

}  // namespace
}  // namespace dp::worker

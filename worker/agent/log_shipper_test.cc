#include "worker/agent/log_shipper.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fake_coordinator.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

class LogShipperTest : public testing::Test {
 protected:
  LogShipperTest() {
    EXPECT_TRUE(spool_.Create().ok());
    shipper_.emplace(coordinator_, /*seed=*/42, [this](const LogsNews& news) {
      bool all = news.all;
      if (all) all_shipped_.TryPush(all);
    });
    shipper_->Use({5, Incarnation(9)});
  }
  ~LogShipperTest() override { coordinator_.CancelAll(); }

  void Write(const std::string& text, v1::LogStream stream = v1::LOG_STREAM_STDOUT) {
    std::ofstream(spool_.path(stream), std::ios::app) << text;
  }
  bool AwaitAllShipped() { return !all_shipped_.DrainFor(absl::Seconds(20)).empty(); }

  const RankKey key_{JobId(1), Generation(1), 0};
  TemporaryDirectory directory_;
  LogSpool spool_{directory_.path(), key_};
  FakeCoordinator coordinator_;
  BoundedQueue<bool> all_shipped_{10};
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

TEST_F(LogShipperTest, AJobThatFloodsDoesNotKeepAnotherFromBeingHeard) {
  // Rank 0 of job 2 has a line to send; many ranks of job 1 have much more than one batch.
  std::vector<LogSpool> spools;
  for (int rank = 1; rank <= 20; ++rank) {
    const RankKey flooding{JobId(1), Generation(1), rank};
    spools.emplace_back(directory_.path(), flooding);
    ASSERT_TRUE(spools.back().Create().ok());
    std::filesystem::resize_file(spools.back().path(v1::LOG_STREAM_STDOUT), 10'000'000'000);
    shipper_->Follow(flooding, spools.back());
  }
  const RankKey other{JobId(2), Generation(1), 0};
  const LogSpool quiet(directory_.path(), other);
  ASSERT_TRUE(quiet.Create().ok());
  std::ofstream(quiet.path(v1::LOG_STREAM_STDERR)) << "hello\n";
  shipper_->Follow(other, quiet);
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDERR, "hello\n"), "hello\n");
}

}  // namespace
}  // namespace dp::worker

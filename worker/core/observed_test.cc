#include "worker/core/observed.h"

#include "gtest/gtest.h"

namespace dp::worker {
namespace {

const RankKey kKey{JobId(7), Generation(1), 0};
const absl::Time kNow = absl::UnixEpoch();

class ObservedTest : public testing::Test {
 protected:
  void Start() { observed_.AskedToStart({.key = kKey, .grace = absl::Seconds(10)}); }
  const Process& process() const { return *observed_.Find(kKey); }

  Observed observed_;
};

TEST_F(ObservedTest, AFactAboutAnUnknownRankIsIgnored) {
  observed_.Started(kKey, 123);
  observed_.Exited(kKey, {}, {});
  observed_.LogsShipped(kKey);
  EXPECT_TRUE(observed_.processes().empty());
}

TEST_F(ObservedTest, AStartConfirmedAfterTheExitChangesNothing) {
  Start();
  observed_.Exited(kKey, {Exit::How::kCode, 3}, {"last words"});
  observed_.Started(kKey, 123);
  EXPECT_EQ(process().phase, Process::Phase::kExited);
  EXPECT_EQ(process().exit.number, 3);
}

TEST_F(ObservedTest, AProcessThatCouldNotBeStartedIsGoneWithTheReason) {
  Start();
  observed_.StartFailed(kKey, "no such program", kNow);
  EXPECT_EQ(process().phase, Process::Phase::kGone);
  EXPECT_EQ(process().error, "no such program");
}

TEST_F(ObservedTest, AcknowledgementsNeverGoBack) {
  Start();
  observed_.Acknowledged(kKey, Milestone::kExited);
  observed_.Acknowledged(kKey, Milestone::kStarted);
  EXPECT_EQ(process().acknowledged, Milestone::kExited);
}

TEST_F(ObservedTest, TheCoordinatorIsReachableSinceItsFirstAnswerAfterSilence) {
  observed_.Reachable(kNow);
  observed_.Reachable(kNow + absl::Seconds(5));
  EXPECT_EQ(observed_.reachable_since(), kNow);
  observed_.Unreachable();
  EXPECT_EQ(observed_.reachable_since(), std::nullopt);
}

}  // namespace
}  // namespace dp::worker

#include "worker/agent/reporter.h"

#include "gtest/gtest.h"

namespace dp::worker {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();

TEST(ReportTurnTest, OneReportIsUnderWayAtATime) {
  ReportTurn turn(/*seed=*/1);
  EXPECT_LE(turn.next_at(), kStart);
  turn.Begin();
  EXPECT_EQ(turn.next_at(), absl::InfiniteFuture());
  EXPECT_TRUE(turn.Done(absl::OkStatus(), kStart));
  EXPECT_LE(turn.next_at(), kStart);
}

TEST(ReportTurnTest, AReportThatWasNotTakenIsSentAgainAfterAPause) {
  ReportTurn turn(/*seed=*/1);
  turn.Begin();
  EXPECT_FALSE(turn.Done(absl::UnavailableError("away"), kStart));
  EXPECT_GT(turn.next_at(), kStart);
  EXPECT_LE(turn.next_at(), kStart + absl::Seconds(1));
}

TEST(ReportTurnTest, ARejectedReportIsDone) {
  ReportTurn turn(/*seed=*/1);
  turn.Begin();
  EXPECT_TRUE(turn.Done(absl::FailedPreconditionError("stale"), kStart));
  EXPECT_LE(turn.next_at(), kStart);
}

}  // namespace
}  // namespace dp::worker

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/agent_fixture.h"

// A coordinator that has lost data gives the numbers of lost jobs again. Answers that concern a
// rank of a lost job then come while a rank with the same key runs.

namespace dp::worker {
namespace {

class ReusedKeyTest : public AgentFixture {
 protected:
  static v1::AssignedRank RankOfJobSubmittedAt(int64_t seconds) {
    v1::AssignedRank rank = ARank(0);
    rank.mutable_submitted_at()->set_seconds(seconds);
    return rank;
  }
  // The rest of the second rank's run.
  void RunToItsEnd() {
    runner_.Tell(0, ProcessStarted{101});
    EXPECT_EQ(coordinator_.NextHeard(), "rank 0 started");
    std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT), std::ios::app) << "line\n";
    End(0, 0);
    EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0: line");
    EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
    EXPECT_EQ(coordinator_.log(v1::LOG_STREAM_STDOUT), "line\n");
  }
};

TEST_F(ReusedKeyTest, NobodyWantingTheLogsOfTheFirstRankDoesNotReleaseTheSecond) {
  RunRankZero(RankOfJobSubmittedAt(100));
  coordinator_.AwaitTold(0);
  coordinator_.HoldLogs();
  const absl::Status away = absl::UnavailableError("away");
  coordinator_.RefuseLogsInTurn({absl::NotFoundError("job 1 is another one"), away, away, away});
  coordinator_.Assign({});
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  coordinator_.AwaitHeld();
  coordinator_.Assign({RankOfJobSubmittedAt(200)});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  coordinator_.LetGo();
  RunToItsEnd();
}

TEST_F(ReusedKeyTest, AnAnswerToTheReportOfTheFirstRankLeavesTheSecondsReportsDue) {
  RunRankZero(RankOfJobSubmittedAt(100));
  coordinator_.HoldReports();
  coordinator_.RejectReport();
  End(0, 3);
  coordinator_.AwaitHeld();
  coordinator_.Assign({RankOfJobSubmittedAt(200)});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  coordinator_.LetGo();
  RunToItsEnd();
}

}  // namespace
}  // namespace dp::worker

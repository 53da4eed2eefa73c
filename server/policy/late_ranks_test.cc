#include "server/policy/late_ranks.h"

#include <gtest/gtest.h>

#include "server/policy/liveness.h"
#include "server/policy/retry_policy.h"
#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

constexpr absl::Duration kLease = absl::Seconds(5);
constexpr absl::Duration kJoinWithin = absl::Seconds(30);

class LateRanksTest : public CoordinatorFixture {
 protected:
  void SetUp() override {
    worker_ = Register("node", 4);
    job_ = Train(2);
  }

  JobId Train(int ranks) {
    const JobId job = SubmitSpec({.name = "job",
                                  .ranks = ranks,
                                  .payload = "",
                                  .restart = RestartLimits(),
                                  .join_within = kJoinWithin});
    PlaceAll();
    return job;
  }
  // Passes the time, with a heartbeat each second if `heard`.
  void Pass(absl::Duration time, bool heard = true) {
    for (const absl::Time end = now_ + time; now_ < end;) {
      now_ += absl::Seconds(1);
      if (heard) liveness_.Hear(worker_, life(worker_), now_);
      liveness_.Overdue(now_);
    }
  }
  std::vector<GiveUpRank> Look() { return late_.Overdue(coordinator_, liveness_, now_); }
  void BothRun() {
    for (const int rank : {0, 1}) Started(job_, rank);
    liveness_.Hear(worker_, life(worker_), now_);
    EXPECT_TRUE(Look().empty());
  }

  Liveness liveness_{kLease};
  LateRanks late_;
  WorkerId worker_;
  JobId job_;
};

TEST_F(LateRanksTest, ARankThatRunsAndDoesNotJoinIsGivenUp) {
  BothRun();
  Join(job_, 0);
  EXPECT_EQ(late_.next_at(), now_ - absl::Seconds(1) + kJoinWithin);
  Pass(kJoinWithin - absl::Seconds(2));
  EXPECT_TRUE(Look().empty());
  Pass(absl::Seconds(1));
  const std::vector<GiveUpRank> verdicts = Look();
  ASSERT_EQ(verdicts.size(), 1u);
  Apply(verdicts[0]);
  EXPECT_EQ(state(job_), "stopping");
  EXPECT_EQ(failure(job_).rank, 1);
  EXPECT_EQ(Name(failure(job_).failure_class), "hang");
  EXPECT_EQ(failure(job_).message,
            "rank 1 on worker node (host node) hangs: it runs, and has not joined for 30s; 1 of 2 "
            "ranks have joined; missing: rank 1 on node (started)");
  EXPECT_TRUE(Look().empty());
  EXPECT_EQ(late_.next_at(), absl::InfiniteFuture());
}

TEST_F(LateRanksTest, TimeCountsFromWhenTheLastProcessRuns) {
  Started(job_, 0);
  EXPECT_TRUE(Look().empty());
  Pass(2 * kJoinWithin);
  EXPECT_TRUE(Look().empty());
  Started(job_, 1);
  EXPECT_TRUE(Look().empty());
  Pass(kJoinWithin);
  EXPECT_EQ(Look().size(), 1u);
}

TEST_F(LateRanksTest, WhoHasJoinedIsNotGivenUp) {
  BothRun();
  for (const int rank : {0, 1}) Join(job_, rank);
  Pass(2 * kJoinWithin);
  EXPECT_TRUE(Look().empty());
  EXPECT_FALSE(Apply(GiveUpRank{Key(job_, 0), "late"}).journal);
  EXPECT_EQ(state(job_), "running");
}

TEST_F(LateRanksTest, ARankThatHasJoinedAWorldThatIsNotSealedIsNotTheOne) {
  BothRun();
  Join(job_, 0);
  EXPECT_FALSE(Apply(GiveUpRank{Key(job_, 0), "late"}).journal);
  EXPECT_EQ(state(job_), "starting");
}

TEST_F(LateRanksTest, ACommandJoinsByRunningAndHasNoLimit) {
  const JobId command = SubmitCommandAndPlace(2);
  Started(command, 0);
  (void)Look();
  Pass(2 * kJoinWithin);
  EXPECT_TRUE(Look().empty());
}

TEST_F(LateRanksTest, WhoWaitedForACoordinatorThatStoodStillHasAllItsTimeAgain) {
  BothRun();
  Pass(kJoinWithin - absl::Seconds(1));
  now_ += kLease;  // the coordinator makes no look
  liveness_.Overdue(now_);
  EXPECT_TRUE(Look().empty());
  Pass(kJoinWithin - absl::Seconds(1));
  EXPECT_TRUE(Look().empty());
  Pass(absl::Seconds(1));
  EXPECT_EQ(Look().size(), 1u);
}

TEST_F(LateRanksTest, ARankOfASilentWorkerIsItsWorkersFailure) {
  BothRun();
  Pass(kJoinWithin - absl::Seconds(3));
  Pass(absl::Seconds(3), /*heard=*/false);
  EXPECT_TRUE(Look().empty());
  Pass(kJoinWithin - absl::Seconds(1));
  EXPECT_TRUE(Look().empty());
  Pass(absl::Seconds(1));
  EXPECT_EQ(Look().size(), 1u);
}

TEST_F(LateRanksTest, TheNextGenerationHasAllItsTime) {
  BothRun();
  Pass(kJoinWithin - absl::Seconds(1));
  Apply(RequeueJob{job_, Generation(1)});
  for (const int rank : {0, 1}) Release(job_, rank);
  for (const Action& verdict : PlanRetries(coordinator_, now_)) Apply(verdict);
  PlaceAll();
  BothRun();
  Pass(kJoinWithin - absl::Seconds(1));
  EXPECT_TRUE(Look().empty());
}

TEST_F(LateRanksTest, AVerdictOnAGenerationThatIsOverIsRefused) {
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Apply(GiveUpRank{{job_, Generation(7), 0}, "late"}).status));
}

}  // namespace
}  // namespace dp::core

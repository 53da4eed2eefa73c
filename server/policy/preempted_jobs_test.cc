// Preemption in the whole machine: which jobs must leave, when they have left, how they continue.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rank.h"
#include "server/policy/due_jobs.h"
#include "server/policy/handovers.h"
#include "server/policy/retry_policy.h"
#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

class PreemptedJobsTest : public CoordinatorFixture {
 protected:
  JobId SubmitWith(int ranks, int priority, bool preemptible, bool command = false) {
    return SubmitSpec({.name = "job",
                       .ranks = ranks,
                       .store_port = command,
                       .joins_by_running = command,
                       .restart = RestartLimits{.infra = 0},
                       .scheduling = {.priority = priority, .preemptible = preemptible}});
  }
  // Decides as the driver does.
  Placement Decide() {
    const DueJobs due = FindDueJobs(coordinator_, now_);
    for (const RequeueJob& requeue : due.requeue) Expect(requeue);
    for (const Action& verdict : PlanRetries(coordinator_, now_)) Expect(verdict);
    Placement placement = PlanPlacement(coordinator_, policy_, now_);
    for (const PlaceJob& place : placement.place) Expect(place);
    for (const Action& ask : AskToLeave(coordinator_, placement.leave, now_)) Expect(ask);
    return placement;
  }
  JobId Run(int ranks, int priority, bool preemptible, bool command = false) {
    const JobId job = SubmitWith(ranks, priority, preemptible, command);
    Decide();
    for (int rank = 0; rank < ranks; ++rank) Started(job, rank);
    for (int rank = 0; rank < ranks && !command; ++rank) Join(job, rank);
    EXPECT_EQ(state(job), "running");
    return job;
  }
  void Leave(JobId job, int rank) { ExitWith(job, rank, kHandedOverExitCode), Release(job, rank); }
  std::vector<std::string> events(JobId job) const {
    std::vector<std::string> kinds;
    for (const Event* event : coordinator_.state().events.After(0, job, 100)) {
      kinds.push_back(event->kind);
    }
    return kinds;
  }

 private:
  void Expect(const Action& action) { EXPECT_EQ(Apply(action).status, absl::OkStatus()); }
};

TEST_F(PreemptedJobsTest, TrainingIsAskedToSaveAndComesBackAfterwards) {
  Register("node", 1);
  const JobId victim = Run(1, 0, /*preemptible=*/true);
  const JobId head = SubmitWith(1, 5, false);
  EXPECT_THAT(TextsOf(Decide(), head), Contains("preempts job 1 of lower priority"));
  EXPECT_EQ(coordinator_.job(victim)->handover->reason, "job 2 of priority 5 takes its slots");
  EXPECT_EQ(state(victim), "running");
  EXPECT_THAT(TextsOf(Decide(), head), Contains("waits until job 1, which it preempts, has left"));
  Leave(victim, 0);
  Decide();
  EXPECT_EQ(places(head), "node/0");
  EXPECT_EQ(state(victim), "pending");
  EXPECT_EQ(coordinator_.job(victim)->past.back().failure.preempted_by, head);
  EXPECT_TRUE(coordinator_.job(victim)->restarts.empty());  // no budget pays
  EXPECT_THAT(TextsOf(Decide(), victim), Contains("job 2 of higher priority took its slots"));
  EXPECT_THAT(events(victim),
              ElementsAre("submitted", "placed", "running", "preempted", "stopping", "retried"));
  ExitWith(head, 0, 0), Release(head, 0);
  Decide();
  EXPECT_EQ(places(victim), "node/0");
}

TEST_F(PreemptedJobsTest, WhoDoesNotLeaveWithinItsGraceIsStopped) {
  Register("node", 1);
  const JobId victim = Run(1, 0, /*preemptible=*/true);
  SubmitWith(1, 5, false);
  Decide();
  const absl::Time by = coordinator_.job(victim)->handover->leave_by;
  EXPECT_EQ(FindDueJobs(coordinator_, now_).next_at, by);
  now_ = by;
  Decide();
  EXPECT_EQ(state(victim), "stopping");
  EXPECT_EQ(failure(victim).preempted_by, JobId(2));
  EXPECT_EQ(Name(failure(victim).failure_class), "preempt");
}

TEST_F(PreemptedJobsTest, AProgramIsStoppedAtOnce) {
  Register("node", 1);
  const JobId victim = Run(1, 0, /*preemptible=*/true, /*command=*/true);
  const JobId head = SubmitWith(1, 5, false);
  Decide();
  EXPECT_EQ(state(victim), "stopping");
  EXPECT_EQ(failure(victim).preempted_by, head);
  EXPECT_THAT(events(victim), Contains("preempted"));
}

TEST_F(PreemptedJobsTest, NobodyLeavesWhoHasNotSaidThatItMay) {
  Register("node", 1);
  const JobId job = Run(1, -5, /*preemptible=*/false);
  SubmitWith(1, 5, false);
  EXPECT_THAT(Decide().leave, IsEmpty());
  EXPECT_EQ(state(job), "running");
}

TEST_F(PreemptedJobsTest, ItKeepsItsPlaceAmongItsEquals) {
  Register("node", 1);
  const JobId victim = Run(1, 0, /*preemptible=*/true);
  const JobId equal = SubmitWith(1, 0, true), head = SubmitWith(1, 5, false);
  Decide(), Leave(victim, 0), Decide();
  EXPECT_EQ(state(head), "starting");
  const Placement placement = Decide();
  EXPECT_LT(placement.waiting.at(victim).position, placement.waiting.at(equal).position);
}

// A victim that has left waits, and does not go back into the slots that the head needs.
TEST_F(PreemptedJobsTest, VictimsDoNotTakeTheirSlotsBackWhileOthersLeave) {
  Register("node", 2);
  const JobId a = Run(1, 0, /*preemptible=*/true), b = Run(1, 0, /*preemptible=*/true);
  const JobId head = SubmitWith(2, 5, false);
  EXPECT_EQ(Decide().leave.size(), 2u);
  Leave(a, 0);
  const Placement between = Decide();
  EXPECT_THAT(between.place, IsEmpty());
  EXPECT_THAT(between.leave, IsEmpty());
  Leave(b, 0);
  Decide();
  EXPECT_EQ(state(head), "starting");
}

// Half of a victim has left: its slots are kept for it, and no other job is asked to leave.
TEST_F(PreemptedJobsTest, NobodyElseIsAskedWhileAVictimLeavesRankByRank) {
  Register("node", 3);
  Run(1, 0, /*preemptible=*/true);
  const JobId victim = Run(2, 0, /*preemptible=*/true, /*command=*/true);
  const JobId head = SubmitWith(2, 5, false);
  Decide();
  ASSERT_EQ(state(victim), "stopping");
  Kill(victim, 0, 15), Release(victim, 0);
  EXPECT_THAT(Decide().leave, IsEmpty());
  Kill(victim, 1, 15), Release(victim, 1);
  Decide();
  EXPECT_EQ(state(head), "starting");
}

TEST_F(PreemptedJobsTest, NobodyLeavesForAHeadThatHasNoStorePort) {
  policy_.ports = {.first = 29500, .last = 29500};
  Register("node", 1);
  const JobId victim = Run(1, 0, /*preemptible=*/true, /*command=*/true);
  SubmitWith(1, 5, false, /*command=*/true);
  EXPECT_THAT(Decide().leave, IsEmpty());
  EXPECT_EQ(state(victim), "running");
}

TEST_F(PreemptedJobsTest, TheMachineItselfRefusesWhatIsNoPreemption) {
  Register("node", 2);
  const JobId low = Run(1, 0, /*preemptible=*/true), firm = Run(1, 0, /*preemptible=*/false);
  const JobId equal = SubmitWith(1, 0, false), high = SubmitWith(1, 5, false);
  const auto ask = [&](JobId victim, JobId by) {
    return Apply(AskHandover{victim, "why", HandoverCause::kPreempt, by}).status;
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(ask(firm, high)));
  EXPECT_TRUE(absl::IsFailedPrecondition(ask(low, equal)));
  EXPECT_TRUE(absl::IsFailedPrecondition(ask(low, JobId(99))));
  EXPECT_EQ(ask(low, high), absl::OkStatus());
}

TEST_F(PreemptedJobsTest, ADryRunSaysWhoWouldHaveToLeave) {
  Register("node", 1);
  Run(1, 0, /*preemptible=*/true);
  const JobSpec spec{.name = "draft", .scheduling = {.priority = 1}};
  const absl::StatusOr<Job> draft = coordinator_.Draft({"request", spec}, now_);
  ASSERT_TRUE(draft.ok());
  const Placement plan = PlanPlacement(coordinator_, policy_, now_, &*draft);
  EXPECT_THAT(TextsOf(plan, draft->id), Contains("preempts job 1 of lower priority"));
}

}  // namespace
}  // namespace dp::core

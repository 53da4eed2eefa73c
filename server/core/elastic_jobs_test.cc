// Jobs whose generations differ in size: they shrink when a worker is lost, and grow when there is
// room that nobody else wants.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rank.h"
#include "server/policy/handovers.h"
#include "server/policy/retry_policy.h"
#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kGrowAfter = absl::Minutes(10);

class ElasticJobsTest : public CoordinatorFixture {
 protected:
  // Native training on one to three workers, two ranks on each.
  static JobSpec Elastic() {
    return {.name = "elastic",
            .ranks = 2,
            .nodes = 1,
            .restart = RestartLimits(),
            .nodes_max = 3,
            .scheduling = {.grow_after = kGrowAfter},
            .saves = true};
  }
  void Decide() {
    for (const Action& verdict : PlanRetries(coordinator_, now_)) Apply(verdict);
    placement_ = PlanPlacement(coordinator_, policy_, now_);
    for (const PlaceJob& place : placement_.place) EXPECT_TRUE(Apply(place).status.ok());
    for (const Action& ask : AskToLeave(coordinator_, placement_.leave, now_)) {
      EXPECT_TRUE(Apply(ask).status.ok());
    }
  }
  JobId Run(const JobSpec& spec) {
    const JobId job = SubmitSpec(spec);
    Decide();
    AllStart(job);
    return job;
  }
  void AllStart(JobId job) {
    for (int rank = 0; rank < size(job); ++rank) {
      Started(job, rank);
      if (!coordinator_.job(job)->spec.joins_by_running) Join(job, rank);
    }
    ASSERT_EQ(state(job), "running");
  }
  void AllLeave(JobId job) {
    for (int rank = 0; rank < size(job); ++rank) {
      ExitWith(job, rank, kHandedOverExitCode), Release(job, rank);
    }
  }
  int size(JobId job) const { return coordinator_.job(job)->world_size(); }
  // Whether a job is asked to come back larger, once it has run for long enough.
  bool Grows() {
    now_ += kGrowAfter;
    Decide();
    return !placement_.leave.empty();
  }

  Placement placement_;
};

TEST_F(ElasticJobsTest, ATrainingComesBackLargerWhereAWorkerHasCome) {
  Register("a", 2);
  const JobId job = Run(Elastic());
  Decide();
  EXPECT_EQ(placement_.again_at, absl::InfiniteFuture());
  Register("b", 2);
  Decide();
  EXPECT_THAT(placement_.leave, IsEmpty());
  const absl::Time due = *coordinator_.job(job)->running_at + kGrowAfter;
  EXPECT_EQ(placement_.again_at, due);
  now_ = due - absl::Nanoseconds(1);
  Decide();
  EXPECT_THAT(placement_.leave, IsEmpty());
  now_ = due;
  Decide();
  EXPECT_EQ(coordinator_.job(job)->handover->reason,
            "it comes back with 1 more worker, which nobody else wants");
  EXPECT_EQ(coordinator_.job(job)->handover->leave_by, absl::InfiniteFuture());
  AllLeave(job);
  Decide();
  EXPECT_EQ(places(job), "a/0 a/1 b/0 b/1");
  EXPECT_TRUE(coordinator_.job(job)->restarts.empty());
}

TEST_F(ElasticJobsTest, ATrainingGoesOnSmallerWithoutAHostThatIsLost) {
  Register("a", 2);
  const WorkerId b = Register("b", 2);
  const JobId job = Run(Elastic());
  EXPECT_EQ(size(job), 4);
  Lose(b);
  for (const int rank : {0, 1}) Kill(job, rank, 15), Release(job, rank);
  Decide();
  EXPECT_EQ(places(job), "a/0 a/1");
  AllStart(job);
  Register("b", 2);
  EXPECT_TRUE(Grows());
}

TEST_F(ElasticJobsTest, BelowItsLowerNumberItWaits) {
  Register("a", 2);
  const WorkerId b = Register("b", 2);
  JobSpec spec = Elastic();
  spec.ranks = 4, spec.nodes = 2;
  const JobId job = Run(spec);
  Lose(b);
  for (const int rank : {0, 1}) Kill(job, rank, 15), Release(job, rank);
  Decide();
  EXPECT_EQ(state(job), "pending");
}

TEST_F(ElasticJobsTest, ItDoesNotGrowWhereAnotherJobWantsSlots) {
  Register("a", 2);
  Run(Elastic());
  const JobId other = SubmitSpec({.name = "large", .ranks = 3});
  Register("b", 2);
  Decide();
  EXPECT_FALSE(Grows());
  Apply(HoldJob{other});  // now it wants no slots
  EXPECT_TRUE(Grows());
}

TEST_F(ElasticJobsTest, OneForWhichThereAreTooFewWorkersDoesNotKeepItFromGrowing) {
  Register("a", 2);
  Run(Elastic());
  SubmitSpec({.name = "huge", .ranks = 100});
  Register("b", 2);
  EXPECT_TRUE(Grows());
}

TEST_F(ElasticJobsTest, AFreeSlotIsNotAWorker) {
  Register("a", 3);
  Run(Elastic());
  Register("b", 1);
  EXPECT_FALSE(Grows());
}

TEST_F(ElasticJobsTest, ALimitIsALimit) {
  Register("a", 2);
  policy_.limits.each_user = Limit{.slots = 3};
  Run(Elastic());
  Register("b", 2);
  EXPECT_FALSE(Grows());
  policy_.limits.each_user = Limit{.slots = 4};
  EXPECT_TRUE(Grows());
}

TEST_F(ElasticJobsTest, OneGrowsAtATimeThoseOfHigherPriorityFirst) {
  Register("a", 2), Register("b", 2);
  JobSpec low = Elastic(), high = Elastic();
  low.nodes_max = high.nodes_max = 1;  // so that both get one worker
  low.scheduling.priority = 1, high.scheduling.priority = 2;
  low.nodes_max = 2;
  policy_.limits.each_user = Limit{.slots = 2, .jobs = 2};
  const JobId first = Run(low);
  policy_.limits = {};
  high.nodes_max = 2;
  const JobId second = Run(high);
  Register("c", 2);
  ASSERT_TRUE(Grows());
  ASSERT_EQ(placement_.leave.size(), 1u);
  EXPECT_EQ(placement_.leave[0].job, second);
  EXPECT_FALSE(Grows());  // while the second leaves
  AllLeave(second);
  Decide();
  EXPECT_EQ(size(second), 4);
  EXPECT_EQ(size(first), 2);
}

TEST_F(ElasticJobsTest, WhoIsAboutToEndDoesNotGrow) {
  Register("a", 2);
  const JobId job = Run(Elastic());
  Register("b", 2);
  ExitWith(job, 0, 0);
  EXPECT_FALSE(Grows());
}

TEST_F(ElasticJobsTest, WhoIsNotToGrowStaysAsItIs) {
  Register("a", 2);
  JobSpec spec = Elastic();
  spec.scheduling.grow_after = absl::InfiniteDuration();
  Run(spec);
  Register("b", 2);
  EXPECT_FALSE(Grows());
}

TEST_F(ElasticJobsTest, AProgramThatAsksForItIsStartedAnewLarger) {
  Register("a", 2);
  JobSpec spec = Elastic();
  spec.joins_by_running = true, spec.saves = false;
  const JobId job = Run(spec);
  Register("b", 2);
  EXPECT_TRUE(Grows());
  EXPECT_EQ(state(job), "stopping");
  EXPECT_EQ(Name(failure(job).failure_class), "preempt");
  for (const int rank : {0, 1}) Kill(job, rank, 15), Release(job, rank);
  Decide();
  EXPECT_EQ(size(job), 4);
}

TEST_F(ElasticJobsTest, WithoutAStorePortForTheNextGenerationItDoesNotGrow) {
  policy_.ports = {.first = 29500, .last = 29500};
  Register("a", 2);
  JobSpec spec = Elastic();
  spec.joins_by_running = spec.store_port = true;
  Run(spec);
  Register("b", 2);
  EXPECT_FALSE(Grows());
}

TEST_F(ElasticJobsTest, APreemptedOneLeavesNoMoreThanItHasTo) {
  Register("a", 2), Register("b", 2);
  JobSpec spec = Elastic();
  spec.scheduling.preemptible = true;
  const JobId job = Run(spec);
  EXPECT_EQ(size(job), 4);
  const JobId head = SubmitSpec({.name = "head", .ranks = 2, .scheduling = {.priority = 1}});
  Decide();
  AllLeave(job);
  Decide();
  EXPECT_EQ(state(head), "starting");
  EXPECT_EQ(size(job), 2);  // the job continues beside the head
}

}  // namespace
}  // namespace dp::core

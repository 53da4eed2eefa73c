// The places of queued jobs: labels, kinds of slots, racks, sizes, and gaps before the head.

#include "server/policy/handovers.h"
#include "server/policy/retry_policy.h"
#include "server/policy/testing/queue_fixture.h"

namespace dp::core {
namespace {

using testing::ElementsAre;

using QueuePlacesTest = QueueFixture;

TEST_F(QueuePlacesTest, AnElasticJobHasAnotherSizeInItsNextGeneration) {
  Register("a", 1);
  const JobId job = SubmitSpec({.name = "job",
                                .ranks = 1,
                                .nodes = 1,
                                .joins_by_running = true,
                                .restart = RestartLimits(),
                                .nodes_max = 3});
  PlaceAll();
  EXPECT_EQ(coordinator_.job(job)->world_size(), 1);
  Register("b", 1), Register("c", 1);
  Apply(RequeueJob{job, Generation(1)});
  Release(job, 0);
  for (const Action& verdict : PlanRetries(coordinator_, now_)) Apply(verdict);
  PlaceAll();
  EXPECT_EQ(places(job), "a/0 b/0 c/0");
}

TEST_F(QueuePlacesTest, ConstraintsChooseWorkersByTheirLabelsAndNames) {
  RegisterWith("a", 2, {{"zone", "x"}});
  RegisterWith("b", 2, {{"zone", "y"}});
  const auto constrained = [this](absl::string_view text) {
    return Submit({.constraints = {*ParseConstraint(text)}});
  };
  const JobId in_y = constrained("zone=y"), not_y = constrained("zone!=y"),
              not_a = constrained("host!=a"), nowhere = constrained("zone=z");
  PlaceAll();
  EXPECT_EQ(places(in_y), "b/0");
  EXPECT_EQ(places(not_y), "a/0");
  EXPECT_EQ(places(not_a), "b/1");
  EXPECT_THAT(reasons(nowhere),
              ElementsAre("needs 1 slot, 0 free of 0 in all on 0 workers with zone=z",
                          "1 slot missing: start more workers with zone=z, or submit with fewer "
                          "ranks or other constraints"));
}

TEST_F(QueuePlacesTest, GpuAndCpuSlotsAreToldApart) {
  RegisterWith("a", 3, {}, /*gpus=*/1);
  const JobId cpu = Submit({.slots = SlotKind::kCpu}, 2), gpu = Submit({.slots = SlotKind::kGpu}),
              second = Submit({.slots = SlotKind::kGpu}), any = Submit({});
  PlaceAll();
  EXPECT_EQ(places(cpu), "a/1 a/2");
  EXPECT_EQ(places(gpu), "a/0");
  EXPECT_EQ(reasons(second).front(), "needs 1 GPU slot, 0 free of 1 in all on 1 worker");
  EXPECT_THAT(Look(second).reasons[0].jobs, ElementsAre(gpu));
  EXPECT_EQ(state(any), "pending");
}

TEST_F(QueuePlacesTest, AJobStaysWithinOneRackWhereItCan) {
  RegisterWith("n1", 2, {{"rack", "r1"}});
  RegisterWith("n2", 3, {{"rack", "r2"}});
  RegisterWith("n3", 2, {{"rack", "r1"}});
  EXPECT_EQ(places(SubmitAndPlace(4)), "n1/0 n1/1 n3/0 n3/1");
}

TEST_F(QueuePlacesTest, RanksOfARackAreAdjacentAndRacksAreFew) {
  for (const char* host : {"n1", "n4"}) RegisterWith(host, 1, {{"rack", "r10"}});
  for (const char* host : {"n2", "n3"}) RegisterWith(host, 1, {{"rack", "r2"}});
  RegisterWith("n0", 1, {{"rack", "r3"}});
  EXPECT_EQ(places(SubmitCommandAndPlace(4, 4)), "n2/0 n3/0 n1/0 n4/0");
}

TEST_F(QueuePlacesTest, AnElasticJobStartsWithWhatIsThereFromItsMinimumOn) {
  for (const char* host : {"a", "b", "c"}) Register(host, 2);
  const JobId job =
      SubmitSpec({.name = "job", .ranks = 2, .nodes = 1, .joins_by_running = true, .nodes_max = 2});
  PlaceAll();
  EXPECT_EQ(coordinator_.job(job)->world_size(), 4);
  for (int rank = 0; rank < 4; ++rank) Started(job, rank);
  EXPECT_EQ(state(job), "running");
  const JobId next =
      SubmitSpec({.name = "job", .ranks = 2, .nodes = 1, .joins_by_running = true, .nodes_max = 2});
  PlaceAll();
  EXPECT_EQ(places(next), "c/0 c/1");
  End(job), End(next);
  EXPECT_EQ(state(job), "succeeded");
}

TEST_F(QueuePlacesTest, AnElasticJobGrowsNoFurtherThanItsUserMay) {
  policy_.limits.each_user = Limit{.slots = 3};
  for (const char* host : {"a", "b", "c"}) Register(host, 2);
  const JobId job = SubmitSpec({.name = "job", .ranks = 2, .nodes = 1, .nodes_max = 3});
  PlaceAll();
  EXPECT_EQ(coordinator_.job(job)->world_size(), 2);
}

TEST_F(QueuePlacesTest, APlacementOfAnotherSizeThanTheJobWantsIsRefused) {
  const WorkerId a = Register("a", 4);
  const JobId job = SubmitSpec({.name = "job", .ranks = 2, .nodes = 1, .nodes_max = 2});
  EXPECT_TRUE(absl::IsInvalidArgument(Apply(PlaceJob{job, {{a, 0}}}).status));
  EXPECT_TRUE(absl::IsInvalidArgument(Apply(PlaceJob{job, {{a, 0}, {a, 1}, {a, 2}}}).status));
  EXPECT_TRUE(Apply(PlaceJob{job, {{a, 0}, {a, 1}, {a, 2}, {a, 3}}}).status.ok());
}

TEST_F(QueuePlacesTest, AShortJobGoesAheadWhereTheHeadWouldWaitAnyway) {
  Register("node", 3);
  const JobId running = Submit({.max_duration = absl::Hours(1)}, 2);
  PlaceAll();
  const JobId head = Submit({}, 3), unbounded = Submit({}),
              too_long = Submit({.max_duration = absl::Hours(2)}),
              fits = Submit({.max_duration = absl::Minutes(30)});
  PlaceAll();
  EXPECT_EQ(state(head), "pending");
  EXPECT_EQ(reasons(unbounded).back(), "job 2 is ahead of it");
  EXPECT_EQ(reasons(too_long).back(), "job 2 is ahead of it");
  EXPECT_EQ(state(fits), "starting");
  End(running);
  PlaceAll();
  EXPECT_EQ(state(head), "pending");
  End(fits);
  PlaceAll();
  EXPECT_EQ(state(head), "starting");
}

TEST_F(QueuePlacesTest, AJobMayTakeWhatTheHeadHasNoUseFor) {
  RegisterWith("gpu", 2, {}, /*gpus=*/2);
  Register("cpu", 1);
  const JobId running = Submit({.slots = SlotKind::kGpu});
  PlaceAll();
  const JobId head = Submit({.slots = SlotKind::kGpu}, 2), other = Submit({}), third = Submit({});
  PlaceAll();
  EXPECT_EQ(state(running), "starting");
  EXPECT_EQ(state(head), "pending");
  EXPECT_EQ(places(other), "cpu/0");
  EXPECT_EQ(state(third), "pending");
}

}  // namespace
}  // namespace dp::core

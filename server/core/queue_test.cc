// The order of the queue: priority, holds, dependencies, limits and drains.

#include "server/policy/handovers.h"
#include "server/policy/retry_policy.h"
#include "server/policy/testing/queue_fixture.h"

namespace dp::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using QueueTest = QueueFixture;

TEST_F(QueueTest, AHigherPriorityGoesFirstAndEqualOnesInTheirOrder) {
  const JobId low = Submit({.priority = -1}), first = Submit({}), second = Submit({}),
              high = Submit({.priority = 7});
  EXPECT_EQ(Look(high).position, 1);
  EXPECT_EQ(Look(first).position, 2);
  EXPECT_EQ(Look(second).position, 3);
  EXPECT_EQ(Look(low).position, 4);
  Register("node", 2);
  PlaceAll();
  EXPECT_EQ(state(high), "starting");
  EXPECT_EQ(state(first), "starting");
  EXPECT_EQ(state(second), "pending");
}

TEST_F(QueueTest, APriorityCanBeChangedUntilTheJobIsOver) {
  const JobId first = Submit({}), second = Submit({});
  Apply(PrioritizeJob{second, 1});
  EXPECT_EQ(Look(second).position, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(Apply(PrioritizeJob{first, 1001}).status));
  EXPECT_FALSE(Apply(PrioritizeJob{second, 1}).journal);
  Apply(CancelJob{first});
  EXPECT_TRUE(absl::IsFailedPrecondition(Apply(PrioritizeJob{first, 1}).status));
}

TEST_F(QueueTest, AHeldJobLetsOthersPassUntilItIsReleased) {
  Register("node", 1);
  const JobId held = Submit({.hold = true}), other = Submit({});
  PlaceAll();
  EXPECT_EQ(state(held), "pending");
  EXPECT_EQ(state(other), "starting");
  EXPECT_EQ(reasons(held).front(), "held until 'dpctl release 1'");
  EXPECT_EQ(Look(held).position, 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(Apply(HoldJob{other}).status));
  End(other);
  Apply(ReleaseJob{held});
  PlaceAll();
  EXPECT_EQ(state(held), "starting");
}

TEST_F(QueueTest, AHeldJobIsNotPlacedWhateverThePlanSays) {
  const WorkerId node = Register("node", 1);
  const JobId job = Submit({.hold = true});
  EXPECT_TRUE(absl::IsFailedPrecondition(Apply(PlaceJob{job, {{node, 0}}}).status));
}

TEST_F(QueueTest, ARequeuedJobGoesBehindItsEquals) {
  const JobId first = Submit({}), second = Submit({});
  Apply(RequeueJob{first});
  EXPECT_EQ(Look(second).position, 1);
  EXPECT_EQ(Look(first).position, 2);
}

TEST_F(QueueTest, AJobWaitsForThoseThatMustSucceedOrEndFirst) {
  Register("node", 4);
  const JobId a = Submit({}), b = Submit({});
  const JobId c = Submit({.after = {{a, true}, {b, false}}});
  PlaceAll();
  EXPECT_EQ(state(c), "pending");
  EXPECT_THAT(reasons(c), ElementsAre("waits for job 1 to succeed", "waits for job 2 to end"));
  EXPECT_THAT(Look(c).reasons[0].jobs, ElementsAre(a));
  End(b, /*code=*/3);
  EXPECT_THAT(reasons(c), ElementsAre("waits for job 1 to succeed"));
  End(a);
  PlaceAll();
  EXPECT_EQ(state(c), "starting");
}

TEST_F(QueueTest, AJobThatWaitsForASuccessThatNeverCameSaysSo) {
  Register("node", 4);
  const JobId a = Submit({}), b = Submit({.after = {{a, true}}});
  PlaceAll();
  End(a, /*code=*/1);
  PlaceAll();
  EXPECT_EQ(Look(b).reasons[0].code, PendingReason::Code::kUnsatisfiable);
  EXPECT_THAT(reasons(b), ElementsAre("job 1 did not succeed, as it should have before this one; "
                                      "cancel this one, or submit both again"));
  const JobId late = Submit({.after = {{a, true}}});
  EXPECT_EQ(Look(late).reasons[0].code, PendingReason::Code::kUnsatisfiable);
  EXPECT_THAT(reasons(Submit({.after = {{a, false}}})), IsEmpty());
}

TEST_F(QueueTest, WhatBecameOfAJobIsKnownWhenItIsForgotten) {
  Register("node", 1);
  const JobId a = Submit({}), b = Submit({.after = {{a, true}}});
  PlaceAll();
  End(a);
  Apply(ForgetJob{a});
  PlaceAll();
  EXPECT_EQ(state(b), "starting");
}

TEST_F(QueueTest, AJobCannotWaitForOneThatIsNotKnown) {
  const Outcome outcome = Apply(
      SubmitJob{"r", {.name = "job", .payload = "", .scheduling = {.after = {{JobId(9), true}}}}});
  EXPECT_TRUE(absl::IsInvalidArgument(outcome.status));
}

TEST_F(QueueTest, OfSingletonsOneRunsAtATime) {
  Register("node", 4);
  const JobId first = SubmitBy("ann", 1, {.singleton = true}),
              second = SubmitBy("ann", 1, {.singleton = true}),
              others = SubmitBy("bob", 1, {.singleton = true});
  PlaceAll();
  EXPECT_EQ(state(first), "starting");
  EXPECT_EQ(state(others), "starting");
  EXPECT_THAT(reasons(second), ElementsAre("is a singleton, and job 1 of the same name and user is "
                                           "not over"));
  End(first);
  PlaceAll();
  EXPECT_EQ(state(second), "starting");
}

TEST_F(QueueTest, AUserAboveItsLimitLetsOthersPass) {
  policy_.limits.each_user = Limit{.slots = 2};
  Register("node", 8);
  const JobId a = SubmitBy("ann", 2), b = SubmitBy("ann", 1), c = SubmitBy("bob", 2);
  PlaceAll();
  EXPECT_EQ(state(a), "starting");
  EXPECT_EQ(state(c), "starting");
  EXPECT_THAT(reasons(b), ElementsAre("user ann has 2 of 2 slots"));
  EXPECT_THAT(Look(b).reasons[0].jobs, ElementsAre(a));
  EXPECT_THAT(reasons(SubmitBy("eve", 3)),
              ElementsAre("user eve has 0 of 2 slots; the job alone is above that"));
}

TEST_F(QueueTest, AQueuesLimitCountsTheJobsOfThisRound) {
  policy_.limits.queues["batch"] = Limit{.jobs = 1};
  Register("node", 8);
  const JobId a = Submit({.queue = "batch"}), b = Submit({.queue = "batch"}), c = Submit({});
  PlaceAll();
  EXPECT_EQ(state(a), "starting");
  EXPECT_EQ(state(c), "starting");
  EXPECT_THAT(reasons(b), ElementsAre("queue batch has 1 of 1 jobs running"));
}

TEST_F(QueueTest, ADrainedWorkerGetsNoRanksInAnyLifeUntilItIsUndrained) {
  const WorkerId node = Register("node", 1);
  const JobId running = SubmitAndPlace(1);
  Apply(DrainWorker{"node", "new disks"});
  End(running);
  const JobId job = CoordinatorFixture::Submit(1);
  PlaceAll();
  EXPECT_EQ(state(job), "pending");
  EXPECT_THAT(reasons(job), ElementsAre("needs 1 slot, 0 free of 0 in all on 0 workers",
                                        "would fit if not drained: node"));
  Lose(node);
  now_ += absl::Hours(2);
  Register("node", 1);
  PlaceAll();
  EXPECT_EQ(state(job), "pending");
  Apply(UndrainWorker{"node"});
  PlaceAll();
  EXPECT_EQ(state(job), "starting");
}

TEST_F(QueueTest, ADrainEndsOnlyForTheReasonThatIsNamed) {
  Register("node", 1);
  Apply(DrainWorker{"node", "its pod ends"});
  Apply(DrainWorker{"node", "new disks"});
  const Outcome refused = Apply(UndrainWorker{"node", "its pod ends"});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status)) << refused.status;
  EXPECT_FALSE(refused.journal);
  EXPECT_TRUE(Apply(UndrainWorker{"node", "new disks"}).journal);
  EXPECT_TRUE(Apply(UndrainWorker{"node", "its pod ends"}).status.ok());  // there is no drain
}

TEST_F(QueueTest, AJobThatIsNamedTwiceIsToldOnce) {
  Register("a", 1);
  const JobId first = Submit({.hold = true});
  const JobId job = Submit({.after = {{first, true}, {first, true}}});
  PlaceAll();
  EXPECT_THAT(reasons(job), ElementsAre("waits for job 1 to succeed"));
}

TEST_F(QueueTest, ADrainThatHandsOverAsksItsJobsOnce) {
  Register("a", 2);
  const WorkerId b = Register("b", 2);
  const JobId job = SubmitSpec({.name = "job", .ranks = 4, .restart = RestartLimits()});
  PlaceAll();
  Apply(DrainWorker{"a", "moving"});
  EXPECT_THAT(FindHandovers(coordinator_), IsEmpty());
  Apply(DrainWorker{"a", "moving", /*hand_over=*/true});
  const std::vector<Action> asked = FindHandovers(coordinator_);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(std::get<AskHandover>(asked[0]).job, job);
  EXPECT_EQ(std::get<AskHandover>(asked[0]).reason, "worker a is drained: moving");
  EXPECT_FALSE(coordinator_.assignment(b, life(b))->ranks.at(0).hand_over);
  const Outcome outcome = Apply(asked[0]);
  EXPECT_TRUE(coordinator_.assignment(b, life(b))->ranks.at(0).hand_over);
  EXPECT_THAT(outcome.changed, testing::Contains(Topic{Topic::Kind::kAssignment, b.value(), ""}));
  EXPECT_THAT(FindHandovers(coordinator_), IsEmpty());
}

TEST_F(QueueTest, AProgramOnADrainedWorkerIsQueuedAgainInItsPlace) {
  Register("a", 1);
  const JobId job =
      SubmitSpec({.name = "job", .ranks = 1, .joins_by_running = true, .restart = RestartLimits()});
  PlaceAll();
  const Revision queued = coordinator_.job(job)->queued;
  Apply(DrainWorker{"a", "moving", /*hand_over=*/true});
  for (const Action& action : FindHandovers(coordinator_)) Apply(action);
  EXPECT_EQ(state(job), "stopping");
  EXPECT_EQ(failure(job).message, "worker a is drained: moving");
  EXPECT_EQ(Name(failure(job).failure_class), "preempt");
  EXPECT_EQ(coordinator_.job(job)->queued, queued);
  EXPECT_THAT(FindHandovers(coordinator_), IsEmpty());
}

TEST_F(QueueTest, AJobThatRunsIsQueuedAgainAsItsNextGenerationWithTheTimeThatIsLeft) {
  Register("a", 1);
  const JobId job = SubmitSpec({.name = "job",
                                .restart = RestartLimits(),
                                .scheduling = {.max_duration = absl::Minutes(1)}});
  PlaceAll();
  const absl::Time placed = now_;
  const JobId other = Submit({});
  Apply(RequeueJob{job, Generation(7)});
  EXPECT_EQ(state(job), "starting");
  Apply(RequeueJob{job, Generation(1)});
  EXPECT_EQ(state(job), "stopping");
  EXPECT_TRUE(Apply(RequeueJob{job, Generation(1)}).status.ok());  // a retry: the answer was lost
  now_ = placed + absl::Seconds(19);
  Release(job, 0);
  for (const Action& verdict : PlanRetries(coordinator_, now_)) Apply(verdict);
  EXPECT_EQ(state(job), "pending");
  EXPECT_EQ(coordinator_.job(job)->time_left, absl::Seconds(40));
  PlaceAll();
  EXPECT_EQ(state(other), "starting");
  EXPECT_EQ(state(job), "pending");
  EXPECT_TRUE(absl::IsFailedPrecondition(Apply(RequeueJob{other, Generation(1)}).status));
}

TEST_F(QueueTest, ADrainNeedsAReasonAndAWorker) {
  Register("node", 1);
  EXPECT_TRUE(absl::IsInvalidArgument(Apply(DrainWorker{"node", ""}).status));
  EXPECT_TRUE(absl::IsNotFound(Apply(DrainWorker{"other", "why"}).status));
  EXPECT_FALSE(Apply(UndrainWorker{"node"}).journal);
}

TEST_F(QueueTest, WhatHappensIsInTheHistory) {
  Register("node", 1);
  const JobId job = Submit({.hold = true});
  Apply(ReleaseJob{job});
  PlaceAll();
  Apply(CancelJob{job});
  Release(job, 0);
  std::vector<std::string> told;
  for (const Event* event : coordinator_.state().events.After(0, job, 100)) {
    told.push_back(absl::StrCat(event->kind, ": ", event->text));
  }
  EXPECT_THAT(told, ElementsAre("submitted: ", "released: ", "placed: generation 1 on node",
                                "stopping: cancelled while starting",
                                "cancelled: cancelled while starting"));
}

}  // namespace
}  // namespace dp::core

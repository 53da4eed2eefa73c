// The traces of commands about the queue: in the history, and for watchers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

using testing::Contains;
using testing::ElementsAre;

class QueueCommandsTest : public CoordinatorFixture {
 protected:
  // "kind: text" of each event, of `job` or, if it is not valid, of all.
  std::vector<std::string> Told(JobId job = {}) const {
    std::vector<std::string> told;
    for (const Event* event : coordinator_.state().events.After(0, job, 1000)) {
      told.push_back(absl::StrCat(event->kind, ": ", event->text));
    }
    return told;
  }
};

TEST_F(QueueCommandsTest, ADrainAndItsEndAreToldWithTheReason) {
  Register("node", 1);
  Apply(DrainWorker{"node", "new disks"});
  Apply(UndrainWorker{"node"});
  EXPECT_THAT(Told(), ElementsAre("registered: ", "drained: new disks", "undrained: "));
}

TEST_F(QueueCommandsTest, WhoWatchesWorkersSeesDrainsBeginAndEnd) {
  Register("node", 1);
  const Topic workers{Topic::Kind::kWorkers};
  EXPECT_THAT(Apply(DrainWorker{"node", "new disks"}).changed, Contains(workers));
  EXPECT_THAT(Apply(UndrainWorker{"node"}).changed, Contains(workers));
}

TEST_F(QueueCommandsTest, AJobThatWaitsAndIsQueuedAgainSaysSo) {
  const JobId job = Submit(1);
  Apply(RequeueJob{job});
  EXPECT_THAT(Told(job), ElementsAre("submitted: ", "requeued: "));
}

TEST_F(QueueCommandsTest, APriorityIsToldWithTheOneBefore) {
  const JobId job = Submit(1);
  Apply(PrioritizeJob{job, 5});
  EXPECT_THAT(Told(job), Contains("priority: from 0 to 5"));
}

TEST_F(QueueCommandsTest, ReleasingAJobThatIsOverChangesNothing) {
  const JobId job = SubmitSpec({.name = "job", .payload = "", .scheduling = {.hold = true}});
  Apply(CancelJob{job});
  EXPECT_FALSE(Apply(ReleaseJob{job}).journal);
  EXPECT_TRUE(coordinator_.job(job)->held);
}

TEST_F(QueueCommandsTest, APlacementNamesEightWorkersAndCountsTheRest) {
  for (const char* host : {"a", "b", "c", "d", "e", "f", "g", "h"}) Register(host, 1);
  EXPECT_THAT(Told(SubmitAndPlace(8)), Contains("placed: generation 1 on a, b, c, d, e, f, g, h"));
  for (const char* host : {"i", "j", "k", "l", "m", "n", "o", "p", "q"}) Register(host, 1);
  EXPECT_THAT(Told(SubmitAndPlace(9)),
              Contains("placed: generation 1 on i, j, k, l, m, n, o, p and 1 more"));
}

TEST_F(QueueCommandsTest, WhatAJobThatIsOverHasLeftDoesNotChange) {
  Register("node", 1);
  const JobId job = SubmitAndRun(1);
  ExitWith(job, 0, 0), Release(job, 0);
  const std::string sha256(64, 'a');
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Apply(RegisterWeights{Key(job, 0), "/out/w", sha256, 1}).status));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Apply(RegisterCheckpoint{Key(job, 0), 1, "/ckpt/1", sha256, 1, 1}).status));
}

}  // namespace
}  // namespace dp::core

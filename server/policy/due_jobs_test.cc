#include "server/policy/due_jobs.h"

#include <gtest/gtest.h>

#include "base/rank.h"
#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

class DueJobsTest : public CoordinatorFixture {
 protected:
  JobId Submit(const Scheduling& scheduling) {
    const JobId job = SubmitSpec({.name = "job", .payload = "", .scheduling = scheduling});
    PlaceAll();
    return job;
  }
  // Applies the verdicts. Returns their number.
  size_t Judge() {
    const DueJobs due = FindDueJobs(coordinator_, now_);
    for (const AskHandover& ask : due.ask) Apply(ask);
    for (const ExpireJob& expire : due.expire) Apply(expire);
    for (const RequeueJob& requeue : due.requeue) Apply(requeue);
    for (const ForgetJob& forget : due.forget) Apply(forget);
    return due.ask.size() + due.expire.size() + due.requeue.size() + due.forget.size();
  }
  // Runs a job on a worker of its own, with a minute to run and ten seconds of grace.
  JobId RunForAMinute(bool saves) {
    Register("node", 1);
    const JobId job = SubmitSpec({.name = "job",
                                  .restart = RestartLimits(),
                                  .scheduling = {.max_duration = absl::Minutes(1)},
                                  .saves = saves});
    PlaceAll();
    Join(job, 0);
    return job;
  }
  absl::Time deadline(JobId job) const { return *coordinator_.job(job)->deadline; }
};

TEST_F(DueJobsTest, AJobThatRunsForTooLongIsStopped) {
  const JobId waits = Submit({.max_duration = absl::Minutes(1)});
  now_ += absl::Hours(1);  // waiting does not count
  EXPECT_EQ(Judge(), 0u);
  Register("node", 1);
  PlaceAll();
  const absl::Time deadline = *coordinator_.job(waits)->deadline;
  EXPECT_EQ(deadline, now_ + absl::Minutes(1));
  EXPECT_EQ(FindDueJobs(coordinator_, now_).next_at, deadline);
  now_ = deadline - absl::Nanoseconds(1);
  EXPECT_EQ(Judge(), 0u);
  now_ = deadline;
  EXPECT_EQ(Judge(), 1u);
  EXPECT_EQ(state(waits), "stopping");
  EXPECT_EQ(failure(waits).message, "it has run for its maxDuration of 1m");
  EXPECT_EQ(Judge(), 0u);
  Kill(waits, 0, 15), Release(waits, 0);
  EXPECT_EQ(state(waits), "failed");
  EXPECT_EQ(Name(failure(waits).failure_class), "timeout");
}

TEST_F(DueJobsTest, AJobThatSavesIsAskedToItsGraceBeforeItsDeadline) {
  const JobId job = RunForAMinute(/*saves=*/true);
  const absl::Time ask_at = deadline(job) - absl::Seconds(10);
  EXPECT_EQ(FindDueJobs(coordinator_, now_).next_at, ask_at);
  now_ = ask_at - absl::Nanoseconds(1);
  EXPECT_EQ(Judge(), 0u);
  now_ = ask_at;
  EXPECT_EQ(Judge(), 1u);
  EXPECT_EQ(coordinator_.job(job)->handover->reason, "its maxDuration of 1m is nearly over");
  EXPECT_EQ(Judge(), 0u);
  ExitWith(job, 0, kHandedOverExitCode), Release(job, 0);
  EXPECT_EQ(state(job), "failed");
  EXPECT_EQ(Name(failure(job).failure_class), "timeout");
  EXPECT_EQ(
      failure(job).message,
      "it has run for its maxDuration of 1m; its ranks have left; no checkpoint is on record");
}

TEST_F(DueJobsTest, AJobThatHasNotSavedByItsDeadlineIsStopped) {
  const JobId job = RunForAMinute(/*saves=*/true);
  now_ = deadline(job) - absl::Seconds(10);
  EXPECT_EQ(Judge(), 1u);
  now_ = deadline(job);
  EXPECT_EQ(Judge(), 1u);
  EXPECT_EQ(state(job), "stopping");
  EXPECT_EQ(Name(failure(job).failure_class), "timeout");
}

TEST_F(DueJobsTest, AJobThatHasNothingToSaveIsNotAsked) {
  const JobId job = RunForAMinute(/*saves=*/false);
  EXPECT_EQ(FindDueJobs(coordinator_, now_).next_at, deadline(job));
  now_ = deadline(job) - absl::Nanoseconds(1);
  EXPECT_EQ(Judge(), 0u);
}

TEST_F(DueJobsTest, OfAShortTimeHalfIsForTraining) {
  const JobSpec spec{.name = "job", .scheduling = {.max_duration = absl::Seconds(4)}};
  EXPECT_EQ(SavesBefore(spec), absl::Seconds(2));
}

TEST_F(DueJobsTest, WhoIsToLeaveByThenIsStoppedThen) {
  const JobId job = RunForAMinute(/*saves=*/true);
  const absl::Time by = now_ + absl::Seconds(10);
  Apply(AskHandover{job, "asked", HandoverCause::kMove, {}, by});
  EXPECT_EQ(FindDueJobs(coordinator_, now_).next_at, by);
  now_ = by;
  EXPECT_EQ(Judge(), 1u);
  EXPECT_EQ(failure(job).message,
            "its ranks have not left within 10s, as they were asked to: asked");
  EXPECT_EQ(Name(failure(job).failure_class), "preempt");
}

TEST_F(DueJobsTest, WhoLeavesWithoutHavingSavedIsNotSaidToHave) {
  const JobId job = RunForAMinute(/*saves=*/false);
  Apply(AskHandover{job, "node is drained"});
  ExitWith(job, 0, kHandedOverExitCode), Release(job, 0);
  EXPECT_EQ(failure(job).message,
            "its ranks have left; nothing was saved, as the job has no train.checkpoint, so it "
            "begins anew: node is drained");
}

TEST_F(DueJobsTest, WhoLeavesIsToldWhichCheckpointIsThere) {
  const JobId job = RunForAMinute(/*saves=*/true);
  Apply(RegisterCheckpoint{Key(job, 0), 150, "/c/150", std::string(64, 'a'), 1, 2});
  Apply(AskHandover{job, "node is drained"});
  ExitWith(job, 0, kHandedOverExitCode), Release(job, 0);
  EXPECT_EQ(failure(job).message,
            "its ranks have left; the latest checkpoint on record is of step 150: node is drained");
}

TEST_F(DueJobsTest, WhatAnEarlierReleaseHasRecordedReadsAsItDid) {
  const JobId job = RunForAMinute(/*saves=*/true);
  AskHandover ask{job, "node is drained"};
  ask.version = 1;
  Apply(ask);
  ExitWith(job, 0, kHandedOverExitCode), Release(job, 0);
  EXPECT_EQ(failure(job).message, "its ranks have saved and left: node is drained");
}

TEST_F(DueJobsTest, AJobThatIsOverGoesWhenItsTimeOnRecordIsUp) {
  Register("node", 1);
  const JobId job = Submit({.ttl_after_finish = absl::Minutes(5)}), other = Submit({});
  Apply(CancelJob{other});
  ExitWith(job, 0, 0), Release(job, 0);
  now_ = *coordinator_.job(job)->finished_at + absl::Minutes(5);
  EXPECT_EQ(FindDueJobs(coordinator_, now_ + absl::Hours(1)).next_at, now_);  // it is due
  EXPECT_EQ(Judge(), 1u);
  EXPECT_EQ(coordinator_.job(job), nullptr);
  EXPECT_NE(coordinator_.job(other), nullptr);
  const auto events = coordinator_.state().events.After(0, job, 100);
  ASSERT_EQ(events.size(), 1u);  // of all that happened to it, the end of its record
  EXPECT_EQ(events[0]->kind, "forgotten");
  EXPECT_EQ(FindDueJobs(coordinator_, now_).next_at, absl::InfiniteFuture());
}

TEST_F(DueJobsTest, WhatIsNotOverIsNotForgotten) {
  const JobId job = Submit({});
  EXPECT_TRUE(absl::IsFailedPrecondition(Apply(ForgetJob{job}).status));
  Apply(CancelJob{job});
  EXPECT_EQ(Apply(ForgetJob{job}).forgotten, std::vector<JobId>{job});
}

TEST_F(DueJobsTest, AnotherJobOfTheNumberIsNotForgotten) {
  const JobId job = Submit({});
  Apply(CancelJob{job});
  const absl::Time submitted_at = coordinator_.job(job)->submitted_at;
  EXPECT_TRUE(absl::IsNotFound(Apply(ForgetJob{job, submitted_at - absl::Seconds(1)}).status));
  EXPECT_NE(coordinator_.job(job), nullptr);
  EXPECT_TRUE(Apply(ForgetJob{job, submitted_at}).status.ok());
}

TEST_F(DueJobsTest, WhoeverForgetsAgainIsNotRefused) {
  const JobId job = Submit({}), other = Submit({});
  Apply(CancelJob{job}), Apply(ForgetJob{job});
  const Outcome again = Apply(ForgetJob{job});
  EXPECT_TRUE(again.status.ok());
  EXPECT_TRUE(again.forgotten.empty());
  EXPECT_TRUE(absl::IsNotFound(Apply(ForgetJob{JobId(other.value() + 1)}).status));
  EXPECT_TRUE(absl::IsNotFound(Apply(ForgetJob{JobId()}).status));
}

}  // namespace
}  // namespace dp::core

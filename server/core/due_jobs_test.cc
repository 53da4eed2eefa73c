#include "server/core/due_jobs.h"

#include <gtest/gtest.h>

#include "server/core/coordinator_fixture.h"

namespace dp::core {
namespace {

class DueJobsTest : public CoordinatorFixture {
 protected:
  JobId Submit(const Scheduling& scheduling) {
    const JobId job = SubmitSpec({.name = "job", .payload = "", .scheduling = scheduling});
    PlaceAll();
    return job;
  }
  // Applies the verdicts; returns how many there were.
  size_t Judge() {
    const DueJobs due = FindDueJobs(coordinator_, now_);
    for (const ExpireJob& expire : due.expire) Apply(expire);
    for (const ForgetJob& forget : due.forget) Apply(forget);
    return due.expire.size() + due.forget.size();
  }
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

TEST_F(DueJobsTest, AJobThatIsOverGoesWhenItsTimeOnRecordIsUp) {
  Register("node", 1);
  const JobId job = Submit({.ttl_after_finish = absl::Minutes(5)}), other = Submit({});
  Apply(CancelJob{other});
  ExitWith(job, 0, 0), Release(job, 0);
  now_ = *coordinator_.job(job)->finished_at + absl::Minutes(5);
  EXPECT_EQ(Judge(), 1u);
  EXPECT_EQ(coordinator_.job(job), nullptr);
  EXPECT_NE(coordinator_.job(other), nullptr);
  EXPECT_TRUE(coordinator_.state().events.After(0, job, 100).empty());
  EXPECT_EQ(FindDueJobs(coordinator_, now_).next_at, absl::InfiniteFuture());
}

TEST_F(DueJobsTest, WhatIsNotOverIsNotForgotten) {
  const JobId job = Submit({});
  EXPECT_TRUE(absl::IsFailedPrecondition(Apply(ForgetJob{job}).status));
  Apply(CancelJob{job});
  EXPECT_EQ(Apply(ForgetJob{job}).forgotten, std::vector<JobId>{job});
  EXPECT_TRUE(absl::IsNotFound(Apply(ForgetJob{job}).status));
}

}  // namespace
}  // namespace dp::core

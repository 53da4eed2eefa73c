#include "server/policy/verdicts.h"

#include <gtest/gtest.h>

#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

class VerdictsTest : public CoordinatorFixture {
 protected:
  Look After(Action action) {
    const Outcome outcome = Apply(action);
    EXPECT_EQ(outcome.status, absl::OkStatus());
    return LookAfter(action, outcome);
  }
  ReportRank Started(JobId job, int rank) const {
    return Report(job, rank, ReportRank::What::kStarted);
  }
};

TEST_F(VerdictsTest, ThePoliciesNeedNotLookAtOnceAtEachRankOfAFormingWorld) {
  Register("node", 2);
  const JobId job = SubmitAndPlace(2);
  EXPECT_EQ(After(Started(job, 0)), Look::kSoon);
  EXPECT_EQ(After(JoinWorld{Key(job, 0)}), Look::kSoon);
  EXPECT_EQ(After(JoinWorld{Key(job, 0)}), Look::kNever);  // a repetition
  EXPECT_EQ(After(JoinWorld{Key(job, 1)}), Look::kAtOnce);
}

TEST_F(VerdictsTest, AProgramsLastStartIsLookedAtAtOnce) {
  Register("node", 2);
  const JobId job = SubmitCommandAndPlace(2);
  EXPECT_EQ(After(Started(job, 0)), Look::kSoon);
  EXPECT_EQ(After(Started(job, 1)), Look::kAtOnce);
}

TEST_F(VerdictsTest, WhatFreesSlotsOrChangesTheQueueIsLookedAtAtOnce) {
  Register("node", 1);
  const JobId job = SubmitAndRun(1);
  EXPECT_EQ(After(Report(job, 0, ReportRank::What::kExited)), Look::kAtOnce);
  EXPECT_EQ(After(Report(job, 0, ReportRank::What::kReleased)), Look::kAtOnce);
  EXPECT_EQ(After(SubmitJob{"r", {"job", 1, "spec"}}), Look::kAtOnce);
}

TEST_F(VerdictsTest, AStoresOperationsConcernNoPolicy) {
  Register("node", 1);
  const JobId job = SubmitAndPlace(1);
  StoreBatch batch{job, Generation(1), 1, 1, {StoreSet{"key", "value"}}};
  EXPECT_EQ(After(batch), Look::kNever);
}

}  // namespace
}  // namespace dp::core

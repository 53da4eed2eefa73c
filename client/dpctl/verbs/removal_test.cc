// rm and prune.

#include "client/dpctl/testing/dpctl_test.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RemovalTest : public DpctlTest {
 protected:
  // Job 5 ended two days ago, 6 an hour ago; 7 runs. The clock of the coordinator is an hour ahead.
  RemovalTest() {
    coordinator_.now = now() + absl::Hours(1);
    AddEnded(5, "train", absl::Hours(48));
    AddEnded(6, "eval", absl::Hours(1));
    AddJob(7, R"(state: JOB_STATE_RUNNING spec { name: "train" })");
  }

  void AddEnded(uint64_t id, const std::string& name, absl::Duration ago) {
    v1::Job& job = AddJob(id, "state: JOB_STATE_FAILED");
    job.mutable_spec()->set_name(name);
    *job.mutable_finished_at() = ToProto(coordinator_.now - ago);
  }
};

TEST_F(RemovalTest, RmTriesEachJobAndRemovesWhatIsOver) {
  const Result result = Dpctl("rm 5 7 99 eval");
  EXPECT_EQ(result.out, "job 5 (train) is removed\njob 6 (eval) is removed\n");
  EXPECT_EQ(result.err,
            "dpctl: job 7 is running, not over; cancel it first\n"
            "dpctl: no job 99\n");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(coordinator_.removed, ElementsAre(5, 6));
  EXPECT_FALSE(coordinator_.removed_with_files);
}

TEST_F(RemovalTest, ANameThatIsGivenTwiceMeansOneJob) {
  AddEnded(8, "eval", absl::Hours(1));
  EXPECT_EQ(Dpctl("rm 8 eval eval").out, "job 8 (eval) is removed\n");
  EXPECT_THAT(coordinator_.removed, ElementsAre(8));
}

TEST_F(RemovalTest, TheCoordinatorLearnsWhoRemovesAJob) {
  Dpctl("rm 5");
  EXPECT_EQ(coordinator_.user, "me");
}

TEST_F(RemovalTest, ArgumentsMayStandBehindDashes) {
  EXPECT_EQ(Dpctl("rm -- 5 6").out, "job 5 (train) is removed\njob 6 (eval) is removed\n");
  out_.str("");
  EXPECT_EQ(Dpctl("describe -o name -- 7").out, "7\n");
  EXPECT_EQ(Dpctl("cancel -- 7").code, 0);
}

TEST_F(RemovalTest, WhatBeginsWithADashIsNoJob) {
  for (const std::string words :
       {"rm -5", "rm -- -5", "cancel -- -5", "describe -- -5", "wait -5"}) {
    err_.str("");
    const Result result = Dpctl(words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_EQ(result.err, "dpctl: a JOB is an id or a name; '-5' is neither\n") << words;
  }
}

TEST_F(RemovalTest, RmSaysTheNumbersAlone) { EXPECT_EQ(Dpctl("rm eval -o name").out, "6\n"); }

TEST_F(RemovalTest, RmNeedsAJob) { EXPECT_EQ(Dpctl("rm").code, 2); }

TEST_F(RemovalTest, PruneRemovesWhatEndedBeforeByTheCoordinatorsClock) {
  const Result result = Dpctl("prune --older-than 1h");
  EXPECT_EQ(result.out, "job 5 (train) is removed\njob 6 (eval) is removed\n");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(coordinator_.jobs.size(), 1u);
}

TEST_F(RemovalTest, PruneKeepsWhatEndedSince) {
  EXPECT_EQ(Dpctl("prune --older-than 1h1s -o name").out, "5\n");
  EXPECT_THAT(coordinator_.removed, ElementsAre(5));
}

TEST_F(RemovalTest, PruneWithoutAnyJobSaysSo) {
  const Result result = Dpctl("prune --older-than 72h");
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "dpctl: no job ended at least 72h ago\n");
  EXPECT_EQ(result.code, 0);
}

TEST_F(RemovalTest, ADryRunRemovesNothing) {
  EXPECT_EQ(Dpctl("prune --older-than 2h --dry-run").out, "job 5 (train) would be removed\n");
  EXPECT_THAT(coordinator_.removed, IsEmpty());
}

TEST_F(RemovalTest, PrunePrintsTheJobsAsAList) {
  EXPECT_THAT(Dpctl("prune --older-than 2h -o json").out,
              HasSubstr("{\n  \"items\": [\n    {\n      \"id\": 5,\n"));
}

TEST_F(RemovalTest, PruneSaysWhatIsGoneWhenTheCoordinatorLeaves) {
  clock_runs_ = true;
  coordinator_.on_remove = [this] { coordinator_.calls_lost = 1000; };
  const Result result = Dpctl("prune --older-than 1h");
  EXPECT_EQ(result.out, "job 5 (train) is removed\n");
  EXPECT_EQ(result.code, 104);
  EXPECT_THAT(result.err, HasSubstr("coordinator at fake:1"));
}

TEST_F(RemovalTest, AnAbsentCoordinatorIsAskedForOneJob) {
  clock_runs_ = true;
  coordinator_.calls_lost = 1000;
  EXPECT_EQ(Dpctl("rm 5").code, 104);
  const int one = 1000 - coordinator_.calls_lost;
  EXPECT_EQ(Dpctl("rm 5 6 7").code, 104);
  EXPECT_EQ(1000 - coordinator_.calls_lost, 2 * one);
}

TEST_F(RemovalTest, ACoordinatorThatListsAllJobsIsNotBelieved) {
  coordinator_.older = true;
  for (const std::string words : {"prune --older-than 1h --dry-run", "prune --older-than 1h"}) {
    const Result result = Dpctl(words);
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("upgrade it first"));
  }
  EXPECT_THAT(coordinator_.removed, IsEmpty());
}

TEST_F(RemovalTest, ANumberIsNotTakenForAName) {
  AddEnded(8, "99", absl::Hours(1));
  EXPECT_EQ(Dpctl("rm 99").code, 102);
  EXPECT_THAT(coordinator_.removed, IsEmpty());
  out_.str("");
  EXPECT_EQ(Dpctl("describe 99 -o name").code, 0);
}

TEST_F(RemovalTest, PruneNeedsAnAge) {
  const Result result = Dpctl("prune");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--older-than"));
  EXPECT_EQ(Dpctl("prune --older-than 30").code, 2);
  EXPECT_EQ(Dpctl("prune --older-than inf").code, 2);
  EXPECT_THAT(Dpctl("prune --older-than 30d").err, HasSubstr("hours are the largest unit"));
  EXPECT_THAT(coordinator_.removed, IsEmpty());
}

}  // namespace
}  // namespace dp::ctl

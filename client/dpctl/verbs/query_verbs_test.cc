// ps, describe, workers, cancel and wait: one question to the coordinator, one answer printed.

#include "client/absence.h"
#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class QueryVerbsTest : public DpctlTest {
 protected:
  QueryVerbsTest() {
    AddJob(3, R"(state: JOB_STATE_SUCCEEDED spec { name: "cnn" ranks: 1 }
                 submitted_at { seconds: 1767319445 } ranks { rank: 0 worker: "w-a" })");
    AddJob(7, R"(state: JOB_STATE_RUNNING spec { name: "cnn" ranks: 2 } restarts: 3
                 submitted_at { seconds: 1767323004 }
                 ranks { rank: 0 worker: "w-a" } ranks { rank: 1 worker: "w-b" })");
    AddJob(8, R"(state: JOB_STATE_PENDING spec { name: "big" ranks: 9 }
                 submitted_at { seconds: 1767323044 }
                 pending_reasons: "needs 9 slots, 1 is free" pending_reasons: "behind job 7")");
  }
};

TEST_F(QueryVerbsTest, PsListsWhatIsNotOver) {
  const Result result = Dpctl("ps");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(
      result.out,
      "ID  NAME  STATE    RANKS  RESTARTS  WORKERS  AGE  REASON\n"
      "7   cnn   RUNNING  2      3         w-a,w-b  41s  -\n"
      "8   big   PENDING  9      0         -        1s   needs 9 slots, 1 is free; behind job "
      "7\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(QueryVerbsTest, PsAllAndStateChoose) {
  EXPECT_EQ(Dpctl("ps -a -o name").out, "3\n7\n8\n");
  out_.str("");
  EXPECT_EQ(Dpctl("ps --state succeeded --no-headers").out,
            "3  cnn  SUCCEEDED  1  0  w-a  1h0m  -\n");
  EXPECT_EQ(Dpctl("ps --state dreaming").code, 2);
}

TEST_F(QueryVerbsTest, PsJsonIsAnObjectOfItems) {
  coordinator_.jobs.clear();
  EXPECT_EQ(Dpctl("-o json ps").out, "{\n  \"items\": []\n}\n");
}

TEST_F(QueryVerbsTest, ANameMeansItsLatestJob) {
  EXPECT_THAT(Dpctl("describe cnn").out, HasSubstr("Job:         7\n"));
  out_.str("");
  EXPECT_THAT(Dpctl("describe 3").out, HasSubstr("Job:         3\n"));
}

TEST_F(QueryVerbsTest, AnUnknownJobIs102) {
  const Result result = Dpctl("describe nobody");
  EXPECT_EQ(result.code, 102);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "dpctl: no job has the name or id 'nobody'; 'dpctl ps -a' lists all\n");
  EXPECT_EQ(Dpctl("wait 99").code, 102);
  EXPECT_EQ(Dpctl("logs 99").code, 102);
  EXPECT_EQ(Dpctl("cancel 99").code, 102);
}

TEST_F(QueryVerbsTest, AnAbsentCoordinatorIs104WithWhatToDo) {
  coordinator_.calls_lost = 1000;
  clock_runs_ = true;
  const Result result = Dpctl("ps --timeout 5s");
  EXPECT_EQ(result.code, 104);
  EXPECT_EQ(result.err,
            "dpctl: coordinator at fake:1: Failed to connect to remote host: Connection refused "
            "(gave up after 1 attempt in 2m)\n"
            "Is the coordinator running there? Give its address with --coordinator or "
            "DPCTL_COORDINATOR.\n");
}

TEST_F(QueryVerbsTest, OneThatAnsweredSomethingIsNotCalledAbsent) {
  coordinator_.calls_lost = 1000;
  coordinator_.lost_because = "recvmsg:Connection reset by peer";
  clock_runs_ = true;
  const Result result = Dpctl("ps --timeout 5s");
  EXPECT_EQ(result.code, 104);
  EXPECT_EQ(result.err,
            "dpctl: coordinator at fake:1: recvmsg:Connection reset by peer (gave up after 1 "
            "attempt in 2m)\n");
}

TEST_F(QueryVerbsTest, ARefusedHandshakeIsReportedAtOnceWithItsReason) {
  coordinator_.calls_lost = 1000;
  coordinator_.lost_because = "Socket closed";
  refusal_ = absl::UnauthenticatedError("the certificate is on a revocation list");
  clock_runs_ = true;
  const Result result = Dpctl("ps");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "dpctl: the certificate is on a revocation list\n");
  EXPECT_EQ(coordinator_.calls_lost, 999);
}

TEST_F(QueryVerbsTest, ACoordinatorThatIsAbsentOrHasAnsweredRefusesNobody) {
  coordinator_.calls_lost = 2;  // nothing connects at first
  EXPECT_EQ(Dpctl("ps").code, 0);
  EXPECT_EQ(looks_into_refusal_, 0);
  coordinator_.on_get = [this] {
    coordinator_.lost_because = "Socket closed";
    coordinator_.calls_lost = 2;
  };
  coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_SUCCEEDED); };
  EXPECT_EQ(Dpctl("wait 7").code, 0) << err_.str();
  EXPECT_EQ(looks_into_refusal_, 0);
}

// The reason says already that none runs.
TEST_F(QueryVerbsTest, WithoutACoordinatorOnThisHostTheAddressOfAnotherIsAskedFor) {
  no_credentials_ = client::WithAbsence(client::Absence::kNoneOnThisHost,
                                        absl::UnavailableError("no coordinator of yours"));
  clock_runs_ = true;
  EXPECT_EQ(Dpctl("ps").err,
            "dpctl: no coordinator of yours (gave up after 1 attempt in 2m)\n"
            "If it runs elsewhere, give its address with --coordinator or DPCTL_COORDINATOR.\n");
}

TEST_F(QueryVerbsTest, AShortAbsenceIsNotNoticed) {
  coordinator_.calls_lost = 2;
  EXPECT_EQ(Dpctl("ps -o name").out, "7\n8\n");
}

TEST_F(QueryVerbsTest, WorkersWarnsThatTheCoordinatorTakesPlainText) {
  EXPECT_EQ(Dpctl("workers").err, "");
  coordinator_.workers.set_insecure(true);
  EXPECT_THAT(Dpctl("workers").err, HasSubstr("runs with --insecure"));
}

TEST_F(QueryVerbsTest, WorkersShowSlotsJobsAndSilence) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(workers { id: 1 name: "w-a" host: "host-a" address: "10.0.0.1" state: WORKER_STATE_READY
                   slots: 2 free_slots: 1 jobs: 7 silent_for { seconds: 1 } }
         workers { id: 2 name: "w-b" host: "host-b" state: WORKER_STATE_LOST slots: 4
                   silent_for { seconds: 90 } }
         workers { id: 3 name: "w-c" host: "host-c" state: WORKER_STATE_LOST slots: 1 })",
      &coordinator_.workers));
  EXPECT_EQ(Dpctl("workers").out,
            "NAME  STATE  SLOTS  FREE  JOBS  HOST    ADDRESS   SILENT  LABELS  REASON\n"
            "w-a   READY  2      1     7     host-a  10.0.0.1  1s      -       -\n"
            "w-b   LOST   4      0     -     host-b  -         1m30s   -       -\n"
            "w-c   LOST   1      0     -     host-c  -         -       -       -\n");
  out_.str("");
  EXPECT_EQ(Dpctl("workers -o name").out, "w-a\nw-b\nw-c\n");
  out_.str("");
  EXPECT_THAT(Dpctl("workers -o json").out, HasSubstr("\"freeSlots\": 1,\n      \"jobs\": [\n"));
  EXPECT_THAT(out_.str(), HasSubstr("\"silentForMs\": 90000,\n"));
  EXPECT_THAT(out_.str(), HasSubstr("\"silentForMs\": null,\n"));
}

TEST_F(QueryVerbsTest, WorkersShowTheirGpusWithLoadAndHealth) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(workers { name: "w-a" gpus: 2
           gpu_list { name: "GPU-a" read_by: "nvml" model: "H100" memory_bytes: 85899345920
                      memory_used_bytes: 1048576 utilisation_percent: 97 temperature_celsius: 88
                      slowed_by: "power cap" slowed_by: "heat" uncorrected_errors: 0
                      repair_pending: true xid: 31 }
           gpu_list { name: "GPU-b" slot: 1 unfit: "had Xid 79" } })",
      &coordinator_.workers));
  EXPECT_EQ(Dpctl("workers --gpus").out,
            "WORKER  SLOT  GPU    MODEL  MEMORY     USED   BUSY  TEMP  HEALTH\n"
            "w-a     0     GPU-a  H100   81920 MiB  1 MiB  97%   88 C  healthy, last Xid 31, its "
            "next reset repairs its memory, slowed by power cap and heat\n"
            "w-a     1     GPU-b  -      -          -      -     -     had Xid 79\n");
  out_.str("");
  EXPECT_THAT(Dpctl("workers -o json").out, HasSubstr("\"slowedBy\": [\n"));
  EXPECT_THAT(out_.str(), HasSubstr("\"model\": \"H100\",\n"));
  EXPECT_THAT(out_.str(), HasSubstr("\"memoryUsedBytes\": 1048576,\n"));
  EXPECT_THAT(out_.str(), HasSubstr("\"xid\": 31,\n"));
  EXPECT_THAT(out_.str(), HasSubstr("\"xid\": null,\n"));
  EXPECT_THAT(out_.str(), HasSubstr("\"healthy\": false,\n          \"unfit\": \"had Xid 79\""));
}

TEST_F(QueryVerbsTest, WhyNothingTrainsOnAGpuIsShownBesideIt) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(workers { name: "w-a" gpus: 1 no_gpu_trainer: "nccl: missing"
                   gpu_list { name: "GPU-a" } })",
      &coordinator_.workers));
  EXPECT_THAT(Dpctl("workers --gpus").out,
              HasSubstr("healthy; no trainer uses it: nccl: missing\n"));
  EXPECT_THAT(Dpctl("workers -o json").out, HasSubstr("\"noGpuTrainer\": \"nccl: missing\",\n"));
}

TEST_F(QueryVerbsTest, GpusThatHaveNotBeenReadYetAreListedAllTheSame) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(workers { name: "w-a" gpus: 2 no_gpu_trainer: "nccl: missing" } workers { name: "w-b" })",
      &coordinator_.workers));
  const Result result = Dpctl("workers --gpus --no-headers");
  EXPECT_EQ(result.out,
            "w-a  -  -  -  -  -  -  -  not read yet; no trainer uses it: nccl: missing\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(QueryVerbsTest, WhereThereAreNoGpusItIsSaidWhoCanTellWhy) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(workers { name: "w-a" })",
                                                            &coordinator_.workers));
  const Result result = Dpctl("workers --gpus");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("no worker has a GPU that ranks may use"));
  EXPECT_EQ(Dpctl("workers").err, result.err);  // no new text
}

TEST_F(QueryVerbsTest, CancelAsksForTheEndOfEachJob) {
  const Result result = Dpctl("cancel 7 big");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "job 7 is being cancelled: STOPPING\njob 8 is being cancelled: STOPPING\n");
  EXPECT_THAT(coordinator_.cancelled, ElementsAre(7, 8));
}

TEST_F(QueryVerbsTest, CancelTriesAllAndReportsEach) {
  const Result result = Dpctl("cancel 99 7 nobody big");
  EXPECT_EQ(result.code, 102);
  EXPECT_EQ(result.out, "job 7 is being cancelled: STOPPING\njob 8 is being cancelled: STOPPING\n");
  EXPECT_EQ(result.err,
            "dpctl: no job has the name or id '99'; 'dpctl ps -a' lists all\n"
            "dpctl: no job has the name or id 'nobody'; 'dpctl ps -a' lists all\n");
}

TEST_F(QueryVerbsTest, CancelOfAJobThatIsOverSaysSo) {
  EXPECT_EQ(Dpctl("cancel 3").out, "job 3 was over: SUCCEEDED\n");
}

TEST_F(QueryVerbsTest, WaitReturnsTheJobsResult) {
  coordinator_.on_watch = [](v1::Job& job) {
    job.set_version(job.version() + 1);
    if (job.version() < 5) return;
    job.set_state(v1::JOB_STATE_FAILED);
    job.mutable_failure()->set_failure_class(v1::FAILURE_CLASS_USER);
    job.mutable_failure()->set_message("rank 1 on worker w-b (host b): exit code 3");
    job.mutable_failure()->mutable_exit()->set_code(3);
    job.mutable_failure()->add_last_lines("assertion failed");
  };
  const Result result = Dpctl("wait 7");
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.out, "job 7 FAILED\n");
  EXPECT_EQ(
      result.err,
      "dpctl: job 7 failed: rank 1 on worker w-b (host b): exit code 3\n  | assertion failed\n");
}

TEST_F(QueryVerbsTest, AJobThatIsRemovedDuringAWaitIsSaidToBe) {
  coordinator_.on_watch = [this](v1::Job&) { coordinator_.jobs.erase(7); };
  const Result result = Dpctl("wait 7");
  EXPECT_EQ(result.code, 102);
  EXPECT_THAT(result.err,
              HasSubstr("dpctl: job 7 was removed while dpctl followed it: by 'dpctl rm'"));
}

TEST_F(QueryVerbsTest, WaitGivesUpAtItsTimeoutWith101) {
  const Result result = Dpctl("wait 7 --timeout 0");
  EXPECT_EQ(result.code, 101);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "dpctl: job 7 is not over after 0s: RUNNING; wait on with 'dpctl wait 7'\n");
}

TEST_F(QueryVerbsTest, NoCallOfAWaitGoesOnBeyondItsTimeout) {
  EXPECT_EQ(Dpctl("wait 7 --timeout 0").code, 101);
  EXPECT_LE(coordinator_.longest_deadline, absl::Seconds(1));
  coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_SUCCEEDED); };
  EXPECT_EQ(Dpctl("wait 7 --timeout 3s").code, 0);
  EXPECT_EQ(coordinator_.longest_deadline, absl::Seconds(3));
}

TEST_F(QueryVerbsTest, AWaitWhoseTimePassesWhileNobodyAnswersTellsWhatWasHeardLast) {
  clock_runs_ = true;
  coordinator_.on_get = [this] { coordinator_.calls_lost = 1000; };
  const Result result = Dpctl("wait 7 --timeout 10m");
  EXPECT_EQ(result.code, 101);
  EXPECT_THAT(result.err, HasSubstr("job 7 is not over after 10m: RUNNING"));
}

TEST_F(QueryVerbsTest, TheLookUpCountsAgainstTheTimeoutOfAWait) {
  const absl::Time began = now();
  coordinator_.on_get = [this] { PassTime(absl::Minutes(4)); };
  coordinator_.on_watch = [this](v1::Job&) { PassTime(absl::Minutes(1)); };
  EXPECT_EQ(Dpctl("wait 7 --timeout 10m").code, 101);
  EXPECT_EQ(now() - began, absl::Minutes(10));
}

TEST_F(QueryVerbsTest, AWaitAsksOnlyForVersionsThatItHasNotSeen) {
  coordinator_.on_watch = [](v1::Job& job) {
    job.set_version(job.version() + 3);
    if (job.version() == 10) job.set_state(v1::JOB_STATE_SUCCEEDED);
  };
  EXPECT_EQ(Dpctl("wait 7").code, 0);
  std::vector<uint64_t> since;
  for (const v1::WatchJobRequest& watch : coordinator_.job_watches) since.push_back(watch.since());
  EXPECT_THAT(since, ElementsAre(0, 4, 7));
}

TEST_F(QueryVerbsTest, AWaitThatHearsNothingAtAllIs104) {
  clock_runs_ = true;
  coordinator_.calls_lost = 1000;
  EXPECT_EQ(Dpctl("wait 7 --timeout 10m").code, 104);
}

TEST_F(QueryVerbsTest, WhatIsRefusedIsAnOrdinaryFailure) {
  coordinator_.store_error = absl::FailedPreconditionError("job 7 is over");
  coordinator_.jobs.at(7).set_generation(1);
  const Result result = Dpctl("store set 7 k v");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "dpctl: job 7 is over\n");
}

}  // namespace
}  // namespace dp::ctl

#include "client/dpctl/view/job_view.h"

#include <sstream>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

constexpr char kFailedJob[] = R"job(
  id: 7 version: 9 generation: 1 state: JOB_STATE_FAILED
  spec { name: "cnn" ranks: 2 }
  ranks { rank: 0 state: RANK_STATE_EXITED worker: "w-a" host: "host-a" slot: 0 pid: 11 exit { signal: 15 } }
  ranks { rank: 1 state: RANK_STATE_EXITED worker: "w-b" host: "host-b" slot: 1 pid: 12 exit { signal: 9 } }
  failure {
    failure_class: FAILURE_CLASS_USER rank: 1 worker: "w-b" host: "host-b" exit { signal: 9 }
    message: "rank 1 on worker w-b (host host-b): signal 9 (SIGKILL)"
    last_lines: "step 3" last_lines: "step 4" at { seconds: 1767323000 }
  }
  submitted_at { seconds: 1767322900 } running_at { seconds: 1767322910 }
  finished_at { seconds: 1767323005 })job";

v1::Job Job(const std::string& text) {
  v1::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
  return job;
}

std::string Described(const v1::Job& job) {
  std::ostringstream out;
  DescribeJob(job, absl::FromUnixSeconds(1767323045), out);
  return out.str();
}

TEST(JobViewTest, AFailedJobShowsItsRootCauseAndItsRanks) {
  EXPECT_EQ(Described(Job(kFailedJob)), R"(Job:         7
Name:        cnn
State:       FAILED
Generation:  1
World size:  2
Submitted:   2026-01-02 03:01:40 UTC (2m25s ago)
Running:     2026-01-02 03:01:50 UTC (2m15s ago)
Finished:    2026-01-02 03:03:25 UTC (40s ago)
Failure:     rank 1 on worker w-b (host host-b): signal 9 (SIGKILL)
  class:     user
  last lines:
    step 3
    step 4
Ranks:
  RANK  STATE   WORKER  HOST    SLOT  PID  EXIT
  0     EXITED  w-a     host-a  0     11   signal 15 (SIGTERM)
  1     EXITED  w-b     host-b  1     12   signal 9 (SIGKILL)
)");
}

// The coordinator says whose job it is; a name that nobody has proven gives no right to it.
TEST(JobViewTest, TheUserIsTheOwnerAndNotAnUnprovenName) {
  const auto shown = [](const std::string& names) {
    const v1::Job job = Job(names + " id: 8 state: JOB_STATE_PENDING");
    std::ostringstream json;
    JsonWriter writer(json);
    WriteJob(job, writer);
    return Described(job) + json.str();
  };
  const std::string legacy = shown(R"(owner: "legacy" user: "me")");
  EXPECT_THAT(legacy, testing::HasSubstr("User:        legacy (submitted as me, without proof)\n"));
  EXPECT_THAT(legacy, testing::HasSubstr("\"user\": \"legacy\""));
  EXPECT_THAT(shown(R"(owner: "legacy")"), testing::HasSubstr("User:        legacy\n"));
  EXPECT_THAT(shown(R"(owner: "ann" user: "ann")"), testing::HasSubstr("User:        ann\n"));
  EXPECT_THAT(shown(R"(user: "ann")"),
              testing::HasSubstr("User:        ann\n"));  // of an earlier release
}

TEST(JobViewTest, APendingJobShowsEveryReason) {
  EXPECT_EQ(Described(Job(R"(id: 8 state: JOB_STATE_PENDING spec { name: "big" ranks: 9 }
                             pending_reasons: "needs 9 slots, 2 are free"
                             pending_reasons: "no worker has joined"
                             submitted_at { seconds: 1767323045 })")),
            R"(Job:         8
Name:        big
State:       PENDING
Generation:  0
World size:  9
Submitted:   2026-01-02 03:04:05 UTC (0s ago)
Running:     -
Finished:    -
Pending:     needs 9 slots, 2 are free
Pending:     no worker has joined
)");
}

// With the job's second rank only.
constexpr char kFailedJson[] = R"json({
  "id": 7,
  "name": "cnn",
  "state": "FAILED",
  "generation": 1,
  "worldSize": 2,
  "nodes": null,
  "user": null,
  "queue": null,
  "priority": 0,
  "held": false,
  "preemptible": false,
  "secrets": [],
  "preemptedBy": null,
  "queuePosition": null,
  "exitCode": null,
  "signal": 9,
  "failureClass": "user",
  "submittedAt": "2026-01-02T03:01:40+00:00",
  "placedAt": null,
  "runningAt": "2026-01-02T03:01:50+00:00",
  "finishedAt": "2026-01-02T03:03:25+00:00",
  "deadline": null,
  "pendingReasons": [],
  "restarts": 0,
  "restartBudgets": [],
  "notBefore": null,
  "notRestartedBecause": null,
  "stoppedEarly": null,
  "waitsFor": [],
  "ranks": [
    {
      "rank": 1,
      "state": "EXITED",
      "worker": "w-b",
      "host": "host-b",
      "slot": 1,
      "pid": 12,
      "exitCode": null,
      "signal": 9
    }
  ],
  "failure": {
    "message": "rank 1 on worker w-b (host host-b): signal 9 (SIGKILL)",
    "rank": 1,
    "worker": "w-b",
    "host": "host-b",
    "at": "2026-01-02T03:03:20+00:00",
    "lastLines": [
      "step 3",
      "step 4"
    ]
  },
  "pastFailures": [],
  "checkpoint": null,
  "bestCheckpoint": null,
  "weights": null
}
)json";

TEST(JobViewTest, TheJsonOfAJobIsStable) {
  std::ostringstream out;
  JsonWriter json(out);
  v1::Job job = Job(kFailedJob);
  job.mutable_ranks()->DeleteSubrange(0, 1);
  WriteJob(job, json);
  EXPECT_EQ(out.str(), kFailedJson);
}

TEST(JobViewTest, WhatACancelledJobDoesNotHaveIsNullInJson) {
  std::ostringstream out;
  JsonWriter json(out, JsonWriter::Style::kOneLine);
  WriteJob(Job(R"(id: 8 generation: 1 state: JOB_STATE_CANCELLED spec { name: "big" ranks: 1 }
                  ranks { rank: 0 state: RANK_STATE_RELEASED worker: "w-a" host: "host-a" slot: 1 }
                  failure { failure_class: FAILURE_CLASS_CANCEL message: "cancelled" })"),
           json);
  EXPECT_EQ(
      out.str(),
      R"({"id":8,"name":"big","state":"CANCELLED","generation":1,"worldSize":1,"nodes":null,)"
      R"("user":null,"queue":null,"priority":0,"held":false,"preemptible":false,"secrets":[],)"
      R"("preemptedBy":null,"queuePosition":null,)"
      R"("exitCode":null,"signal":null,"failureClass":"cancel","submittedAt":null,)"
      R"("placedAt":null,"runningAt":null,"finishedAt":null,"deadline":null,"pendingReasons":[],)"
      R"("restarts":0,"restartBudgets":[],"notBefore":null,"notRestartedBecause":null,"stoppedEarly":null,"waitsFor":[],)"
      R"("ranks":[{"rank":0,"state":"RELEASED","worker":"w-a","host":"host-a","slot":1,)"
      R"("pid":null,"exitCode":null,"signal":null}],)"
      R"("failure":{"message":"cancelled","rank":null,"worker":null,"host":null,"at":null,)"
      "\"lastLines\":[]},\"pastFailures\":[],\"checkpoint\":null,\"bestCheckpoint\":null,"
      "\"weights\":null}\n");
}

constexpr char kRestarted[] = R"job(
  id: 9 generation: 2 state: JOB_STATE_FAILED spec { name: "cnn" ranks: 1 }
  failure { failure_class: FAILURE_CLASS_USER message: "exit code 3" }
  not_restarted_because: "restart.maxRestarts is 0" restarts: 1
  restart_budgets { failure_class: FAILURE_CLASS_USER }
  restart_budgets { failure_class: FAILURE_CLASS_INFRA used: 1 limit: 10 window { seconds: 3600 } }
  past_failures {
    generation: 1 failure_class: FAILURE_CLASS_INFRA counted_as: FAILURE_CLASS_INFRA
    message: "worker w-a was lost" worker: "w-a" host: "host-a" at { seconds: 1767323005 }
    last_lines: "step 3" preempted_by: 8 })job";

TEST(JobViewTest, ARestartedJobShowsItsHistory) {
  const std::string text = Described(Job(kRestarted));
  EXPECT_THAT(text, testing::HasSubstr("Restarts:    1 (user 0/0, infra 1/10 within 1h)\n"));
  EXPECT_THAT(text, testing::HasSubstr("  not restarted: restart.maxRestarts is 0\n"));
  EXPECT_THAT(text, testing::HasSubstr("Earlier failures:\n"
                                       "  generation 1, 2026-01-02 03:03:25 UTC (40s ago), infra: "
                                       "worker w-a was lost\n    step 3\n"));
}

TEST(JobViewTest, TheHistoryOfAJobIsInItsJson) {
  std::ostringstream out;
  JsonWriter json(out, JsonWriter::Style::kOneLine);
  WriteJob(Job(kRestarted), json);
  EXPECT_THAT(out.str(), testing::HasSubstr(
                             R"("restartBudgets":[{"failureClass":"user","used":0,"limit":0,)"
                             R"("windowSeconds":null},{"failureClass":"infra","used":1,"limit":10,)"
                             R"("windowSeconds":3600}])"));
  EXPECT_THAT(out.str(), testing::HasSubstr(R"("pastFailures":[{"generation":1,)"
                                            R"("failureClass":"infra","countedAs":"infra",)"
                                            R"("preemptedBy":8)"));
}

TEST(JobViewTest, AgesShowTheirTwoLargestUnits) {
  EXPECT_EQ(AgeText(absl::Seconds(-3)), "0s");
  EXPECT_EQ(AgeText(absl::Seconds(59)), "59s");
  EXPECT_EQ(AgeText(absl::Seconds(61)), "1m1s");
  EXPECT_EQ(AgeText(absl::Minutes(125)), "2h5m");
  EXPECT_EQ(AgeText(absl::Hours(49)), "2d1h");
}

}  // namespace
}  // namespace dp::ctl

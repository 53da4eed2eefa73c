// hold, release, requeue, priority, drain, undrain, events, and the scheduling flags of submit.

#include <fstream>

#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class QueueVerbsTest : public DpctlTest {
 protected:
  QueueVerbsTest() {
    AddJob(7, R"(state: JOB_STATE_PENDING spec { name: "cnn" ranks: 2 } generation: 3)");
    AddJob(8, R"(state: JOB_STATE_PENDING spec { name: "big" ranks: 9 })");
    AddWorker(R"(id: 1 name: "w-a" state: WORKER_STATE_READY slots: 2 jobs: 7)");
    AddWorker(R"(id: 2 name: "w-b" state: WORKER_STATE_READY slots: 2
                 labels { key: "rack" value: "r1" } labels { key: "gpu" value: "h100" })");
  }
  void AddWorker(const std::string& text) {
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(text, coordinator_.workers.add_workers()));
  }
  void AddEvents(const std::string& text) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        text, &coordinator_.event_pages.emplace_back()));
  }
};

TEST_F(QueueVerbsTest, HoldAndReleaseTryEachJob) {
  Result result = Dpctl("hold cnn 99 8");
  EXPECT_EQ(result.code, 102);
  EXPECT_EQ(result.out,
            "job 7 is held until 'dpctl release'\njob 8 is held until 'dpctl release'\n");
  EXPECT_THAT(result.err, HasSubstr("no job has the name or id '99'"));
  EXPECT_TRUE(coordinator_.jobs[8].held());
  out_.str("");
  EXPECT_EQ(Dpctl("release 7").out, "job 7 is released\n");
  EXPECT_FALSE(coordinator_.jobs[7].held());
  out_.str("");
  EXPECT_EQ(Dpctl("release 7 -o name").out, "7\n");
  out_.str("");
  EXPECT_EQ(Dpctl("release 7").out, "job 7 was not held\n");
}

TEST_F(QueueVerbsTest, APriorityIsChanged) {
  EXPECT_EQ(Dpctl("priority 7 --to -5").out, "job 7 has priority -5, had 0\n");
  EXPECT_EQ(coordinator_.jobs[7].priority(), -5);
  EXPECT_EQ(Dpctl("priority 7").code, 2);
}

TEST_F(QueueVerbsTest, RequeueNamesTheGenerationThatItMeans) {
  EXPECT_EQ(Dpctl("requeue cnn").out, "job 7 is queued again: PENDING\n");
  ASSERT_EQ(coordinator_.requeued.size(), 1u);
  EXPECT_EQ(coordinator_.requeued[0].generation(), 3u);
}

TEST_F(QueueVerbsTest, AVerbOfAJobPrintsItAsJson) {
  EXPECT_THAT(Dpctl("hold 7 -o json").out, HasSubstr("\"held\": true"));
}

TEST_F(QueueVerbsTest, ADrainNeedsAReasonAndSaysWhoIsLeft) {
  EXPECT_EQ(Dpctl("drain w-a").code, 2);
  EXPECT_EQ(Dpctl("drain w-a --reason disks").out, "worker w-a is DRAINING, with jobs 7\n");
  EXPECT_EQ(coordinator_.drains.at(0).reason(), "disks");
  EXPECT_FALSE(coordinator_.drains.at(0).hand_over());
  out_.str("");
  EXPECT_EQ(Dpctl("drain w-b --reason disks --hand-over").out, "worker w-b is DRAINED\n");
  EXPECT_TRUE(coordinator_.drains.at(1).hand_over());
  EXPECT_EQ(Dpctl("drain nobody --reason disks").code, 102);
}

TEST_F(QueueVerbsTest, ADrainWaitsForTheLastRank) {
  int looks = 0;
  coordinator_.on_watch_workers = [&](v1::ListWorkersResponse& workers) {
    if (++looks < 3) return;
    workers.mutable_workers(0)->clear_jobs();
    workers.mutable_workers(0)->set_state(v1::WORKER_STATE_DRAINED);
  };
  EXPECT_EQ(Dpctl("drain w-a --reason disks --wait").out, "worker w-a is DRAINED\n");
  EXPECT_EQ(looks, 3);
}

TEST_F(QueueVerbsTest, ADrainGivesUpWaitingWith101) {
  const Result result = Dpctl("drain w-a --reason disks --wait --for 0");
  EXPECT_EQ(result.code, 101);
  EXPECT_EQ(result.out, "worker w-a is DRAINING, with jobs 7\n");
}

TEST_F(QueueVerbsTest, ADrainThatIsOnIsWaitedForAndStaysAsItWas) {
  EXPECT_THAT(Dpctl("drain w-a --wait").err, HasSubstr("w-a is not drained"));
  coordinator_.workers.mutable_workers(0)->set_drained(true);
  coordinator_.on_watch_workers = [](v1::ListWorkersResponse& workers) {
    workers.mutable_workers(0)->clear_jobs();
    workers.mutable_workers(0)->set_state(v1::WORKER_STATE_DRAINED);
  };
  EXPECT_EQ(Dpctl("drain w-a --wait").out, "worker w-a is DRAINED\n");
  EXPECT_THAT(coordinator_.drains, ::testing::IsEmpty());
  EXPECT_EQ(Dpctl("drain w-a --wait --hand-over").code, 2);
}

TEST_F(QueueVerbsTest, ADrainAndItsEndAreToldToPrograms) {
  EXPECT_EQ(Dpctl("drain w-b --reason disks -o name").out, "w-b\n");
  out_.str("");
  EXPECT_THAT(Dpctl("drain w-b --reason disks -o json").out, HasSubstr("\"reason\": \"disks\""));
  out_.str("");
  EXPECT_EQ(Dpctl("undrain w-b -o name").out, "w-b\n");
  out_.str("");
  EXPECT_THAT(Dpctl("undrain w-b -o json").out, HasSubstr("\"drained\": false"));
}

TEST_F(QueueVerbsTest, UndrainGivesAWorkerBack) {
  Dpctl("drain w-b --reason disks");
  out_.str("");
  EXPECT_EQ(Dpctl("undrain w-b").out, "worker w-b is READY\n");
  EXPECT_EQ(Dpctl("undrain nobody").code, 102);
}

TEST_F(QueueVerbsTest, WorkersShowLabelsAndWhyTheyAreDrained) {
  Dpctl("drain w-b --reason disks");
  out_.str("");
  EXPECT_EQ(Dpctl("workers").out,
            "NAME  STATE    SLOTS  FREE  JOBS  HOST  ADDRESS  SILENT  LABELS            REASON\n"
            "w-a   READY    2      0     7     -     -        -       -                 -\n"
            "w-b   DRAINED  2      0     -     -     -        -       gpu=h100,rack=r1  disks\n");
  out_.str("");
  const std::string json = Dpctl("workers -o json").out;
  EXPECT_THAT(json, HasSubstr("\"labels\": {\n        \"gpu\": \"h100\",\n"));
  EXPECT_THAT(json, HasSubstr("\"drained\": true,\n      \"reason\": \"disks\"\n"));
}

TEST_F(QueueVerbsTest, ALabelWithoutAValueIsShownAsItsKey) {
  AddWorker(R"(id: 3 name: "w-c" state: WORKER_STATE_READY slots: 2 process_tracking: "cgroup2"
               labels { key: "nvlink" } labels { key: "rack" value: "r1" })");
  EXPECT_THAT(Dpctl("workers").out, HasSubstr("  nvlink,rack=r1  "));
}

TEST_F(QueueVerbsTest, WorkersShowTheSlotsThatNobodyIsGivenAndWhy) {
  AddWorker(R"(id: 3 name: "w-c" state: WORKER_STATE_READY slots: 2 process_tracking: "cgroup2"
               unhealthy_slots { slot: 1 reason: "GPU 1 is lost" })");
  EXPECT_THAT(Dpctl("workers").out, HasSubstr("slot 1: GPU 1 is lost"));
  out_.str("");
  const std::string json = Dpctl("workers -o json").out;
  EXPECT_THAT(json, HasSubstr("\"slot\": 1,\n          \"reason\": \"GPU 1 is lost\"\n"));
  EXPECT_THAT(json, HasSubstr("\"processTracking\": \"cgroup2\""));
}

constexpr char kTwoEvents[] = R"(
    events { number: 4 at { seconds: 1767323004 } job: 7 kind: "placed" text: "generation 1 on w" }
    events { number: 5 at { seconds: 1767323005 } worker: "w" kind: "registered" }
    next_since: 5 oldest: 1)";

TEST_F(QueueVerbsTest, EventsAreListedUntilThereAreNoMore) {
  AddEvents(kTwoEvents);
  AddEvents("next_since: 5 oldest: 1");
  EXPECT_EQ(Dpctl("events").out,
            "4  2026-01-02T03:03:24+00:00  job 7  placed  generation 1 on w\n"
            "5  2026-01-02T03:03:25+00:00  worker w  registered\n");
  ASSERT_EQ(coordinator_.event_watches.size(), 2u);
  EXPECT_EQ(coordinator_.event_watches[1].since(), 5u);
  EXPECT_EQ(coordinator_.event_watches[1].job(), 0u);
}

TEST_F(QueueVerbsTest, EventsOfAJobAreAskedForByItsNumber) {
  AddEvents("");
  EXPECT_EQ(Dpctl("events cnn --since 3").code, 0);
  EXPECT_EQ(coordinator_.event_watches.at(0).job(), 7u);
  EXPECT_EQ(coordinator_.event_watches.at(0).since(), 3u);
}

TEST_F(QueueVerbsTest, EventsAsJsonAreOneALine) {
  AddEvents(kTwoEvents);
  AddEvents("");
  EXPECT_EQ(Dpctl("events -o json").out,
            R"({"number":4,"at":"2026-01-02T03:03:24+00:00","job":7,"worker":null,"kind":"placed",)"
            R"("text":"generation 1 on w","actor":null})"
            "\n"
            R"({"number":5,"at":"2026-01-02T03:03:25+00:00","job":null,"worker":"w",)"
            R"("kind":"registered","text":null,"actor":null})"
            "\n");
}

TEST_F(QueueVerbsTest, AnEventShowsWhoCausedItAndAccessWhereItIsAboutNothingElse) {
  AddEvents(R"(events { number: 4 at { seconds: 1767323004 } job: 7 kind: "held" actor: "user ann" }
               events { number: 5 at { seconds: 1767323005 } kind: "granted" text: "viewer bob"
                        actor: "admin root" } next_since: 5)");
  AddEvents("next_since: 5");
  EXPECT_EQ(Dpctl("events").out,
            "4  2026-01-02T03:03:24+00:00  job 7  held  by user ann\n"
            "5  2026-01-02T03:03:25+00:00  access  granted  viewer bob  by admin root\n");
}

TEST_F(QueueVerbsTest, TheActorOfAnEventIsInItsJson) {
  AddEvents(R"(events { number: 5 kind: "revoked" text: "user bob" actor: "admin root" }
               next_since: 5)");
  AddEvents("next_since: 5");
  EXPECT_THAT(Dpctl("events -o json").out,
              HasSubstr(R"("job":null,"worker":null,"kind":"revoked","text":"user bob",)"
                        R"("actor":"admin root"})"));
}

TEST_F(QueueVerbsTest, EventsGoOnBehindThoseThatTheCallerMayNotSee) {
  AddEvents("next_since: 1000");
  AddEvents(R"(events { number: 1004 job: 7 kind: "placed" } next_since: 1004)");
  AddEvents("next_since: 1004");
  EXPECT_EQ(Dpctl("events -o name").out, "1004\n");
}

TEST_F(QueueVerbsTest, EventsThatAreGoneAreMentioned) {
  AddEvents("oldest: 9");
  EXPECT_THAT(Dpctl("events --since 3").err, HasSubstr("events before number 9 are gone"));
}

class SubmitFlagsTest : public QueueVerbsTest {
 protected:
  const v1::JobSpec& Submitted(const std::string& flags) {
    EXPECT_EQ(Dpctl("submit " + flags + " -- true").code, 0) << err_.str();
    return coordinator_.jobs.rbegin()->second.spec();
  }
};

TEST_F(SubmitFlagsTest, FlagsSayWhenAJobMayRun) {
  const v1::JobSpec& spec =
      Submitted("--hold --priority 5 --preemptible --after cnn --after any:8 --after ok:8");
  EXPECT_TRUE(spec.hold());
  EXPECT_TRUE(spec.preemptible());
  EXPECT_EQ(spec.priority(), 5);
  EXPECT_THAT(spec.after(), ElementsAre("ok:7", "any:8", "ok:8"));
  EXPECT_EQ(coordinator_.user, "me");
}

TEST_F(SubmitFlagsTest, AJobAfterNobodyIsNotSubmitted) {
  EXPECT_EQ(Dpctl("submit --after nobody -- true").code, 102);
  EXPECT_EQ(coordinator_.jobs.size(), 2u);
}

TEST_F(SubmitFlagsTest, ExplainShowsWhereEachRankWouldRun) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(spec { name: "true" }
         ranks { rank: 0 worker: "w-a" host: "h1" address: "10.0.0.1" interface: "eth0" slot: 1 }
         ranks { rank: 1 worker: "w-a" host: "h1" address: "10.0.0.1" interface: "eth0" slot: 2
                 local_rank: 1 rack: "r1" gpu: true }
         timeouts { name: "lease" after { seconds: 5 } what: "a silent worker is lost" })",
      &coordinator_.plan));
  const Result result = Dpctl("submit --dry-run --explain --nproc-per-node 2 -- true");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out,
            "job true would start now: 2 ranks on 1 worker\n"
            "  RANK  WORKER  HOST  RACK  SLOT  GPU  LOCAL  ADDRESS   INTERFACE\n"
            "  0     w-a     h1    -     1     no   0      10.0.0.1  eth0\n"
            "  1     w-a     h1    r1    2     yes  1      10.0.0.1  eth0\n"
            "Timeouts:\n"
            "  NAME   AFTER  WHAT\n"
            "  lease  5s     a silent worker is lost\n");
  EXPECT_EQ(coordinator_.plan_requests.at(0).user(), "me");
  EXPECT_EQ(coordinator_.jobs.size(), 2u);
}

TEST_F(SubmitFlagsTest, ExplainShowsWhyAJobWouldWait) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(spec { name: "true" } queue_position: 2
         waits_for { code: PENDING_CODE_RESOURCES text: "needs 2 slots, 0 free" jobs: 7 jobs: 8 }
         waits_for { code: PENDING_CODE_HELD text: "held" })",
      &coordinator_.plan));
  EXPECT_EQ(Dpctl("submit --dry-run --explain -- true").out,
            "job true would wait, at position 2 of the queue\n"
            "  needs 2 slots, 0 free (held by jobs 7, 8)\n"
            "  held\n");
  out_.str("");
  const std::string json = Dpctl("submit --dry-run --explain -o json -- true").out;
  EXPECT_THAT(json, HasSubstr("\"startsNow\": false,\n  \"queuePosition\": 2,"));
  EXPECT_THAT(json, HasSubstr("\"code\": \"resources\""));
  EXPECT_EQ(Dpctl("submit --explain -- true").code, 2);
}

TEST_F(SubmitFlagsTest, ExplainOfAJobThatWouldBeHeldNamesNoPosition) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(spec { name: "true" } waits_for { code: PENDING_CODE_HELD text: "held" })",
      &coordinator_.plan));
  EXPECT_EQ(Dpctl("submit --dry-run --explain --hold -- true").out,
            "job true would wait\n  held\n");
}

TEST_F(QueueVerbsTest, DescribeTellsWhoIsInTheWay) {
  AddJob(9, R"(state: JOB_STATE_PENDING spec { name: "next" queue: "batch" } user: "ann"
               priority: 4 queue_position: 2 pending_reasons: "needs 1 slot"
               waits_for { code: PENDING_CODE_RESOURCES text: "needs 1 slot" jobs: 7 })");
  const std::string text = Dpctl("describe 9").out;
  EXPECT_THAT(text, HasSubstr("User:        ann\nQueue:       batch\nPriority:    4\n"
                              "Position:    2\n"));
  EXPECT_THAT(text, HasSubstr("Pending:     needs 1 slot (held by job 7)\n"));
  EXPECT_THAT(Dpctl("describe 9 -o json").out,
              HasSubstr("\"waitsFor\": [\n    {\n      \"code\": \"resources\",\n"
                        "      \"text\": \"needs 1 slot\",\n      \"jobs\": [\n        7\n"));
}

TEST_F(QueueVerbsTest, NoTextIsNoJob) {
  for (const std::string words :
       {"cancel ", "describe ", "wait ", "requeue ", "logs ", "events ", "store ls ",
        "submit --after  -- true", "submit --after any: -- true"}) {
    err_.str("");
    EXPECT_EQ(Dpctl(words).code, 2) << words;
    EXPECT_THAT(err_.str(), HasSubstr("a JOB is an id or a name")) << words;
  }
  EXPECT_TRUE(coordinator_.cancelled.empty());
}

TEST_F(QueueVerbsTest, AFlagThatMayBeRepeatedTakesOneValue) {
  const std::string file = ::testing::TempDir() + "one_value.yaml";
  std::ofstream(file) << "{apiVersion: dp/v1, kind: Job, name: c, command: {argv: [a]}}";
  EXPECT_EQ(Dpctl("submit --set name=other " + file).code, 0) << err_.str();
  EXPECT_EQ(coordinator_.jobs.rbegin()->second.spec().name(), "other");
  EXPECT_EQ(Dpctl("submit --after 7 " + file).code, 0) << err_.str();
  err_.str("");
  EXPECT_EQ(Dpctl("submit --env A=b " + file).code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("--env is for a program, and '"));
  EXPECT_THAT(Dpctl("submit").err, HasSubstr("or a program: dpctl submit --nproc-per-node"));
  std::remove(file.c_str());
}

TEST_F(QueueVerbsTest, APriorityOutOfItsRangeIsAUsageError) {
  for (const std::string words : {"submit --dry-run --priority 5000 -- true",
                                  "submit --priority high -- true", "priority 7 --to -1001"}) {
    err_.str("");
    EXPECT_EQ(Dpctl(words).code, 2) << words;
    EXPECT_THAT(err_.str(), HasSubstr("expected a whole number from -1000 to 1000")) << words;
  }
}

TEST_F(QueueVerbsTest, ADryRunHasNoNumberToPrint) {
  EXPECT_EQ(Dpctl("submit --dry-run --explain -o name -- true").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("a dry run makes no job"));
  EXPECT_TRUE(coordinator_.plan_requests.empty());
}

TEST_F(QueueVerbsTest, ADryRunLooksForTheCheckpointsToResume) {
  EXPECT_EQ(Dpctl("submit --dry-run --resume 7@latest -- true").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("--resume is for train jobs"));
  EXPECT_EQ(Dpctl("submit --dry-run --resume  -- true").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("--resume is ''; expected JOB@latest"));
}

TEST_F(QueueVerbsTest, ANegativeEventNumberIsAUsageError) {
  EXPECT_EQ(Dpctl("events --since -1").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("'-1' is no number; expected one from 0 on"));
}

TEST_F(QueueVerbsTest, EventsOfAJobThatIsOverEndWithItsLast) {
  AddJob(9, R"(state: JOB_STATE_SUCCEEDED spec { name: "done" })");
  AddEvents(R"(events { number: 4 job: 9 kind: "placed" } next_since: 4)");
  AddEvents(R"(events { number: 5 job: 9 kind: "succeeded" } next_since: 5)");
  AddEvents("next_since: 5");
  EXPECT_EQ(Dpctl("events -w done -o name").out, "4\n5\n");
}

TEST_F(QueueVerbsTest, EventsOfAJobThatIsRemovedMeanwhileSaySo) {
  AddJob(9, R"(state: JOB_STATE_RUNNING spec { name: "gone" })");
  AddEvents(R"(events { number: 4 job: 9 kind: "placed" } next_since: 4)");
  coordinator_.on_events = [this] { coordinator_.jobs.erase(9); };
  const Result result = Dpctl("events -w 9 -o name");
  EXPECT_EQ(result.out, "4\n");
  EXPECT_EQ(result.code, 102);
  EXPECT_THAT(result.err, HasSubstr("dpctl: job 9 was removed while dpctl followed it"));
}

TEST_F(QueueVerbsTest, ControlCharactersOfOthersDoNotReachTheTerminal) {
  coordinator_.workers.mutable_workers(0)->set_reason("new\n\x1b[2Jdisk");
  coordinator_.workers.mutable_workers(0)->set_drained(true);
  AddEvents(R"(events { number: 4 worker: "w" kind: "drained" text: "a\nb" } next_since: 4)");
  AddEvents("");
  EXPECT_THAT(Dpctl("workers").out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(Dpctl("events").out, HasSubstr("drained  a\\nb\n"));
}

}  // namespace
}  // namespace dp::ctl

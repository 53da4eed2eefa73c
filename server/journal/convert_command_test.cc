#include "server/journal/convert_command.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/convert/convert_job.h"
#include "server/convert/convert_world.h"
#include "server/journal/command_versions.h"
#include "server/journal/journal_snapshot.pb.h"

namespace dp::server {
namespace {

const core::RankKey kRank{JobId(7), Generation(3), 2};

core::Scheduling Scheduling() {
  return {"batch",
          -3,
          true,
          {{JobId(5), true}, {JobId(6), false}},
          true,
          absl::Minutes(5),
          absl::Hours(1),
          core::SlotKind::kGpu,
          {*ParseConstraint("zone!=b"), *ParseConstraint("nvlink")},
          /*preemptible=*/true,
          /*grow_after=*/absl::Minutes(7)};
}

// One action of each kind, every field set.
std::vector<core::Action> AllActions() {
  return {
      core::StartEpoch{{.key_bytes = 1, .value_bytes = 2, .keys = 3, .total_bytes = 4}},
      core::StartEpoch{.kept_answers = core::KeptAnswers::kWhole},
      core::SubmitJob{"request",
                      {"name",
                       4,
                       std::string("\0\xff", 2),
                       true,
                       2,
                       true,
                       {},
                       3,
                       Scheduling(),
                       /*grace=*/absl::Seconds(11),
                       /*saves=*/true,
                       /*join_within=*/absl::Seconds(10),
                       /*gpu_training=*/true,
                       /*detect_within=*/absl::Seconds(3)},
                      "ann",
                      "ann",
                      {{"TOKEN", std::string("\0\xff", 2)}, {"KEY", "sealed"}}},
      core::SubmitJob{"request 2",
                      {.name = "on GPUs", .scheduling = {.slots = core::SlotKind::kTrainingGpu}},
                      ""},
      core::CancelJob{JobId(7)},
      core::PlaceJob{JobId(7), {{WorkerId(1), 0}, {WorkerId(2), 3}}, 29501},
      core::RegisterWorker{"w",
                           "host",
                           "10.0.0.1",
                           Incarnation(~uint64_t{0}),
                           2,
                           {4001, 4002},
                           1,
                           {{"rack", "r1"}, {"nvlink", ""}},
                           "eth0",
                           "cgroup2",
                           /*trains_on_gpus=*/true},
      core::LoseWorker{WorkerId(1), Incarnation(5), "silent"},
      core::ReportRank{WorkerId(1),
                       Incarnation(5),
                       kRank,
                       core::ReportRank::What::kExited,
                       11,
                       {core::Exit::How::kSignal, 9},
                       "no such file",
                       {"line", "not utf-8: \xff"},
                       /*stopped=*/true,
                       "cut off",
                       /*oom=*/true},
      core::LeaveWorker{WorkerId(1), Incarnation(5)},
      core::ReportSlots{
          WorkerId(1), Incarnation(5), 2, {{0, "no answer"}, {3, "holds 9 MiB \xff"}}},
      core::JoinWorld{kRank, /*tells_first_step=*/true},
      core::CompleteFirstStep{kRank},
      core::StopEarly{kRank, "loss has not improved"},
      core::AccusePeers{
          kRank, {0, 3}, "all_reduce 7: ranks 0, 3 did not arrive within 2s", true, {3}},
      core::StoreBatch{JobId(7),
                       Generation(3),
                       1,
                       2,
                       {StoreSet{"k", "v"}, StoreGet{"k"}, StoreAdd{"n", -1},
                        StoreCompareSet{"k", "a", "b"}, StoreDelete{"k"}, StoreCheck{{"k", "n"}}},
                       {2, 4}},
      core::RegisterCheckpoint{kRank, 400, "/ckpt/\xff/step-400", std::string(64, 'a'), 1 << 20, 3},
      core::RegisterWeights{kRank, "/out/w.safetensors", std::string(64, 'b'), 1 << 19},
      core::AskHandover{JobId(7), "job 8 wants its slots", core::HandoverCause::kPreempt, JobId(8),
                        absl::FromUnixSeconds(1'800'000'000)},
      core::SubmitJob{
          "request",
          {.name = "name",
           .restart = core::RestartLimits{1, 2, 3, 4, 5, absl::Minutes(6), {93}, {33}}}},
      core::RetryJob{JobId(7), Generation(3), absl::FromUnixSeconds(9), core::FailureClass::kOom},
      core::RetryJob{JobId(7), Generation(3), absl::FromUnixSeconds(9), {}},
      core::FinishJob{JobId(7), Generation(3), "restart.maxRestarts is 0"},
      core::HoldJob{JobId(7)},
      core::ReleaseJob{JobId(7)},
      core::PrioritizeJob{JobId(7), -3},
      core::RequeueJob{JobId(7), Generation(3), "job 8 wants its slots", JobId(8)},
      core::ExpireJob{JobId(7)},
      core::ForgetJob{JobId(7)},
      core::ForgetJob{.job = JobId(7), .user = "ann", .with_files = true},
      core::AskHandover{JobId(7), "it can grow", core::HandoverCause::kGrow},
      core::DrainWorker{"w", "new disks", true},
      core::UndrainWorker{"w", "new disks"},
      core::GiveUpRank{kRank, "its process runs for 32s and has not joined"},
      core::SubmitJob{"request", {.name = "name", .join_within = absl::Seconds(32)}},
  };
}

// The actions of one kind.
template <typename Kind>
std::vector<Kind> All() {
  std::vector<Kind> found;
  for (const core::Action& action : AllActions()) {
    if (const auto* kind = std::get_if<Kind>(&action)) found.push_back(*kind);
  }
  return found;
}

core::Command Command(core::Action action) {
  return {absl::FromUnixNanos(1700000000123456789), std::move(action)};
}

TEST(ConvertCommandTest, EveryCommandComesBackAsItWas) {
  for (core::Action& action : AllActions()) {
    const core::Command command = Command(std::move(action));
    const journal::JournalRecord record = ToRecord(command);
    const auto back = FromRecord(record);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->at, command.at);
    EXPECT_EQ(back->action.index(), command.action.index());
    EXPECT_EQ(ToRecord(*back).DebugString(), record.DebugString());
  }
}

TEST(ConvertCommandTest, FieldsKeepTheirMeaning) {
  const auto back = FromRecord(ToRecord(Command(All<core::ReportRank>().front())));
  ASSERT_TRUE(back.ok()) << back.status();
  const auto& report = std::get<core::ReportRank>(back->action);
  EXPECT_EQ(report.rank, kRank);
  EXPECT_EQ(report.what, core::ReportRank::What::kExited);
  EXPECT_EQ(report.exit, (core::Exit{core::Exit::How::kSignal, 9}));
  EXPECT_EQ(report.last_lines.at(1), "not utf-8: \xff");
  EXPECT_TRUE(report.stopped);
}

TEST(ConvertCommandTest, WhatAJobAsksForKeepsItsMeaning) {
  for (const core::SubmitJob& given : All<core::SubmitJob>()) {
    const auto back = FromRecord(ToRecord(Command(given)));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(std::get<core::SubmitJob>(back->action).spec, given.spec);
  }
}

TEST(ConvertCommandTest, ARetryKeepsWhatItCosts) {
  for (const core::RetryJob& given : All<core::RetryJob>()) {
    const auto back = FromRecord(ToRecord(Command(given)));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(std::get<core::RetryJob>(back->action).counted_as, given.counted_as);
    EXPECT_EQ(std::get<core::RetryJob>(back->action).not_before, given.not_before);
  }
}

TEST(ConvertCommandTest, WhereAndWhenAJobMayRunComesBack) {
  const auto back = FromRecord(ToRecord(Command(All<core::SubmitJob>().front())));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(std::get<core::SubmitJob>(back->action).spec.scheduling, Scheduling());
}

TEST(ConvertCommandTest, AJobOfBeforeThereWasAQueueHasTheDefaults) {
  journal::JournalRecord record = ToRecord(Command(All<core::SubmitJob>().front()));
  record.mutable_submit_job()->clear_scheduling();
  const auto back = FromRecord(record);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(std::get<core::SubmitJob>(back->action).spec.scheduling, core::Scheduling());
}

TEST(ConvertCommandTest, HowSoonRanksAreToJoinComesBack) {
  for (const absl::Duration within : {absl::Seconds(32), absl::InfiniteDuration()}) {
    const core::SubmitJob given{"request", {.name = "name", .join_within = within}};
    const auto back = FromRecord(ToRecord(Command(given)));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(std::get<core::SubmitJob>(back->action).spec, given.spec);
  }
}

TEST(ConvertCommandTest, ALaterVersionOfACommandIsRefused) {
  for (core::Action& action : AllActions()) {
    journal::JournalRecord record = ToRecord(Command(std::move(action)));
    record.set_version(VersionOf(record) + 1);
    EXPECT_EQ(FromRecord(record).status().code(), absl::StatusCode::kFailedPrecondition);
  }
  journal::JournalRecord record = ToRecord(Command(core::AskHandover{JobId(7), "why"}));
  record.set_version(3);
  EXPECT_EQ(FromRecord(record).status().message(),
            "ask_handover has version 3, this release knows up to 2; start the release that wrote "
            "it, or a later one");
}

TEST(ConvertCommandTest, WhatIsKnownOfVersionsIsATable) {
  const journal::JournalRecord record = ToRecord(Command(core::CancelJob{JobId(7)}));
  journal::JournalRecord second = record;
  second.set_version(2);
  const CommandVersions known = {{journal::JournalRecord::kCancelJob, 2}};
  EXPECT_TRUE(CheckVersion(record, known).ok());
  EXPECT_TRUE(CheckVersion(second, known).ok());
  EXPECT_FALSE(CheckVersion(second).ok());
}

TEST(ConvertCommandTest, ARecordWithoutAVersionMeansWhatItDidAtFirst) {
  journal::JournalRecord record = ToRecord(Command(core::AskHandover{JobId(7), "why"}));
  EXPECT_EQ(record.version(), 2u);
  record.clear_version();
  const auto back = FromRecord(record);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(std::get<core::AskHandover>(back->action).version, 1u);
  EXPECT_EQ(ToRecord(*back).DebugString(), record.DebugString());
}

// A record holds an enum's value by its number (message_fields.h).
TEST(ConvertCommandTest, TheValuesOfAnEnumHaveTheOrderOfItsMessage) {
  for (int i = 0; i < v1::JobState_ARRAYSIZE - 1; ++i) {
    EXPECT_EQ(ToProto(static_cast<core::JobState>(i)), i + 1);
  }
  for (int i = 0; i < v1::RankState_ARRAYSIZE - 1; ++i) {
    EXPECT_EQ(ToProto(static_cast<core::RankState>(i)), i + 1);
  }
  for (int i = 0; i < v1::FailureClass_ARRAYSIZE - 1; ++i) {
    EXPECT_EQ(ToProto(static_cast<core::FailureClass>(i)), i + 1);
  }
  for (int i = 0; i < v1::WorldState_ARRAYSIZE - 1; ++i) {
    EXPECT_EQ(ToProto(static_cast<core::WorldState>(i)), i + 1);
  }
}

TEST(ConvertCommandTest, TheValuesOfTheJournalsOwnEnumsHaveTheOrderOfTheCores) {
  using What = core::ReportRank::What;
  EXPECT_EQ(static_cast<int>(What::kStarted) + 1, journal::ReportRank::WHAT_STARTED);
  EXPECT_EQ(static_cast<int>(What::kExited) + 1, journal::ReportRank::WHAT_EXITED);
  EXPECT_EQ(static_cast<int>(What::kReleased) + 1, journal::ReportRank::WHAT_RELEASED);
  using Cause = core::HandoverCause;
  EXPECT_EQ(static_cast<int>(Cause::kMove), journal::AskHandover::CAUSE_MOVE);
  EXPECT_EQ(static_cast<int>(Cause::kDeadline), journal::AskHandover::CAUSE_DEADLINE);
  EXPECT_EQ(static_cast<int>(Cause::kPreempt), journal::AskHandover::CAUSE_PREEMPT);
  EXPECT_EQ(static_cast<int>(Cause::kGrow), journal::AskHandover::CAUSE_GROW);
  using Kind = core::SlotKind;
  EXPECT_EQ(static_cast<int>(Kind::kAny), journal::Scheduling::SLOTS_ANY);
  EXPECT_EQ(static_cast<int>(Kind::kGpu), journal::Scheduling::SLOTS_GPU);
  EXPECT_EQ(static_cast<int>(Kind::kCpu), journal::Scheduling::SLOTS_CPU);
  EXPECT_EQ(static_cast<int>(Kind::kTrainingGpu), journal::Scheduling::SLOTS_TRAINING_GPU);
  using State = core::AwaitedJob::State;
  EXPECT_EQ(static_cast<int>(State::kUnfinished), journal::SavedAwaitedJob::STATE_UNFINISHED);
  EXPECT_EQ(static_cast<int>(State::kDone), journal::SavedAwaitedJob::STATE_DONE);
  EXPECT_EQ(static_cast<int>(State::kInVain), journal::SavedAwaitedJob::STATE_IN_VAIN);
}

TEST(ConvertCommandTest, AValueOfALaterReleaseIsRefused) {
  journal::JournalRecord report = ToRecord(Command(core::ReportRank{}));
  report.mutable_report_rank()->set_what(static_cast<journal::ReportRank::What>(9));
  EXPECT_EQ(FromRecord(report).status(),
            absl::DataLossError(
                "ReportRank.what is 9, which this release does not know; start a later one"));
  report.mutable_report_rank()->set_what(journal::ReportRank::WHAT_UNSPECIFIED);
  EXPECT_EQ(FromRecord(report).status().code(), absl::StatusCode::kDataLoss);
  journal::JournalRecord submit = ToRecord(Command(core::SubmitJob{}));
  submit.mutable_submit_job()->mutable_scheduling()->set_slots(
      static_cast<journal::Scheduling::Slots>(9));
  EXPECT_EQ(FromRecord(submit).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ConvertCommandTest, ARecordWithoutACommandIsRefused) {
  EXPECT_EQ(FromRecord({}).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace dp::server

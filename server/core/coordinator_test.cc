#include "server/core/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class CoordinatorTest : public CoordinatorFixture {
 protected:
  static Topic WorldOf(JobId job) { return {Topic::Kind::kWorld, job.value()}; }
  static Topic AssignmentOf(WorkerId worker) { return {Topic::Kind::kAssignment, worker.value()}; }
  std::string message(const Outcome& outcome) { return std::string(outcome.status.message()); }
};

TEST_F(CoordinatorTest, AJobRunsWhenItsWorldIsSealedAndSucceedsWhenAllRanksAreReleased) {
  const WorkerId node = Register("node", 2);
  const JobId job = Submit(2);
  EXPECT_EQ(state(job), "pending");
  PlaceAll();
  EXPECT_EQ(state(job), "starting");
  Join(job, 1);
  EXPECT_EQ(state(job), "starting");
  Join(job, 0);
  EXPECT_EQ(state(job), "running");
  ExitWith(job, 0, 0), Release(job, 0);
  EXPECT_EQ(state(job), "running");
  EXPECT_EQ(free_slots(node), 1u);
  ExitWith(job, 1, 0), Release(job, 1);
  EXPECT_EQ(state(job), "succeeded");
  EXPECT_EQ(free_slots(node), 2u);
}

TEST_F(CoordinatorTest, TheFirstFailedRankIsTheRootCauseAndStopsTheOthers) {
  const WorkerId node = Register("node", 3);
  const JobId job = SubmitAndRun(3);
  Exit(job, 1, {Exit::How::kCode, 3}, {"out of memory"});
  EXPECT_EQ(state(job), "stopping");
  EXPECT_EQ(failure(job).message, "rank 1 on worker node (host node): exit code 3");
  EXPECT_THAT(failure(job).last_lines, ElementsAre("out of memory"));
  EXPECT_EQ(assigned(node), "rank 0 stop, rank 1 stop, rank 2 stop");
  Kill(job, 0, 15), ExitWith(job, 2, 1);
  for (int rank = 0; rank < 3; ++rank) Release(job, rank);
  EXPECT_EQ(state(job), "failed");
  EXPECT_EQ(failure(job).rank, 1);
  EXPECT_EQ(free_slots(node), 3u);
}

TEST_F(CoordinatorTest, AReportAboutAnotherJobOfTheSameNumberIsRefused) {
  Register("node", 1);
  const JobId job = SubmitAndRun(1);
  ReportRank report = Report(job, 0, ReportRank::What::kExited);
  report.job_submitted_at = coordinator_.job(job)->submitted_at - absl::Nanoseconds(1);
  EXPECT_EQ(Apply(report).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(state(job), "running");
  report.job_submitted_at = coordinator_.job(job)->submitted_at;
  EXPECT_EQ(Apply(report).status, absl::OkStatus());
  EXPECT_EQ(rank_state(job, 0), "exited");
}

TEST_F(CoordinatorTest, ARankThatCouldNotBeStartedFailsItsJob) {
  Register("node", 1);
  const JobId job = SubmitAndPlace(1);
  ReportRank report = Report(job, 0, ReportRank::What::kExited);
  report.error = "dp-trainer: not found";
  Apply(report);
  EXPECT_EQ(failure(job).failure_class, FailureClass::kStartup);
  EXPECT_THAT(failure(job).message, HasSubstr("could not be started: dp-trainer: not found"));
}

TEST_F(CoordinatorTest, ARankThatEndsWellWithoutJoiningDoesNotLeaveTheOthersWaiting) {
  Register("node", 2);
  const JobId job = SubmitAndPlace(2);
  ExitWith(job, 0, 0);
  EXPECT_EQ(state(job), "starting");
  Join(job, 1);
  EXPECT_EQ(state(job), "stopping");
  EXPECT_THAT(failure(job).message, HasSubstr("before it joined the world"));
}

TEST_F(CoordinatorTest, ARankThatEndsWellAfterItsPeersHaveJoinedDoesNotLeaveThemWaiting) {
  Register("node", 4);
  const JobId job = SubmitAndPlace(4);
  Join(job, 0), Join(job, 1), Started(job, 2), Started(job, 3);
  EXPECT_EQ(state(job), "starting");
  ExitWith(job, 2, 0);
  EXPECT_EQ(state(job), "stopping");
  EXPECT_THAT(failure(job).message, HasSubstr("before it joined the world"));
}

TEST_F(CoordinatorTest, WorkersThatShareUnevenlyAndPortsThatAreTooFewAreRefused) {
  EXPECT_EQ(Apply(SubmitJob{"uneven", {.name = "job", .ranks = 3, .nodes = 2}}).status.code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Apply(RegisterWorker{"", "host", "", Incarnation(5), 2, {4001}}).status.code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorTest, LosingAWorkerFailsItsJobsAndNamesWorkerHostAndRank) {
  const WorkerId a = Register("a", 1);
  const WorkerId b = Register("b", 1);
  const JobId job = SubmitAndRun(2);
  Lose(b);
  EXPECT_EQ(state(job), "stopping");
  EXPECT_EQ(failure(job).failure_class, FailureClass::kInfra);
  EXPECT_EQ(failure(job).message, "worker b on host b was lost with rank 1: no heartbeat for 6s");
  EXPECT_EQ(rank_state(job, 1), "lost");
  EXPECT_EQ(assigned(a), "rank 0 stop");
  Kill(job, 0, 15), Release(job, 0);
  EXPECT_EQ(state(job), "failed");
}

TEST_F(CoordinatorTest, AWorkerThatShutDownHasLeftUnlessItHadRanks) {
  const WorkerId busy = Register("a", 1);
  SubmitAndRun(1);
  const WorkerId idle = Register("b", 1);
  for (const WorkerId worker : {busy, idle}) {
    Apply(LeaveWorker{worker, life(worker)});
    Lose(worker);
  }
  std::map<std::string, std::vector<std::string>> kinds;
  for (const auto& [number, event] : coordinator_.state().events.events()) {
    kinds[event.worker].push_back(event.kind);
  }
  EXPECT_THAT(kinds["a"], testing::ElementsAre("registered", "leaving", "lost"));
  EXPECT_THAT(kinds["b"], testing::ElementsAre("registered", "leaving", "left"));
}

TEST_F(CoordinatorTest, LosingTheWorkerOfARankThatEndedWellIsNoFailure) {
  const WorkerId a = Register("a", 1);
  Register("b", 1);
  const JobId job = SubmitAndRun(2);
  ExitWith(job, 0, 0);
  Lose(a);
  ExitWith(job, 1, 0), Release(job, 1);
  EXPECT_EQ(state(job), "succeeded");
}

TEST_F(CoordinatorTest, AVerdictOnALifeThatIsOverChangesNothing) {
  const WorkerId node = Register("node", 1, "node");
  const LoseWorker late = {node, life(node), "no heartbeat for 6s"};
  Lose(node);
  Register("node", 1, "node");
  const JobId job = SubmitAndRun(1);
  const Outcome outcome = Apply(late);
  EXPECT_EQ(outcome.status, absl::OkStatus());
  EXPECT_FALSE(outcome.journal);
  EXPECT_EQ(state(job), "running");
}

TEST_F(CoordinatorTest, ADaemonThatAsksForTheNameOfALiveOneChangesNothing) {
  const WorkerId node = Register("node", 2, "node");
  const JobId job = SubmitAndRun(2);
  const Outcome outcome = Apply(RegisterWorker{"node", "other", "", Incarnation(7), 4});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(outcome.journal);
  EXPECT_EQ(state(job), "running");
  EXPECT_EQ(free_slots(node), 0u);
}

TEST_F(CoordinatorTest, ANewLifeOfALostWorkerStartsWithFreeSlots) {
  const WorkerId node = Register("node", 2, "node");
  const JobId job = SubmitAndRun(2);
  Lose(node);
  EXPECT_EQ(Register("node", 4, "node"), node);
  EXPECT_EQ(state(job), "failed");
  EXPECT_EQ(free_slots(node), 4u);
  EXPECT_EQ(assigned(node), "");
}

TEST_F(CoordinatorTest, ARankThatPeersWaitedForIsTheFailureUnlessItWaitedItself) {
  Register("node", 3);
  const JobId job = SubmitAndRun(3);
  EXPECT_TRUE(Apply(AccusePeers{Key(job, 0), {1, 2}, "ranks 1, 2 did not arrive"}).journal);
  EXPECT_EQ(state(job), "running");
  Apply(AccusePeers{Key(job, 2), {}, "rank 0 went away"});
  EXPECT_EQ(state(job), "stopping");
  EXPECT_EQ(failure(job).failure_class, FailureClass::kHang);
  EXPECT_EQ(failure(job).rank, 1);
  EXPECT_FALSE(Apply(AccusePeers{Key(job, 2), {0}, "late"}).journal);
}

TEST_F(CoordinatorTest, ASuspectWhoseWorkerIsSilentDoesNotHangButIsGone) {
  Register("node", 3);
  const JobId job = SubmitAndRun(3);
  Apply(AccusePeers{Key(job, 0), {1, 2}, "ranks 1, 2 did not arrive", /*insist=*/true, {2}});
  EXPECT_EQ(failure(job).failure_class, FailureClass::kInfra);
  EXPECT_EQ(failure(job).rank, 2);
  EXPECT_EQ(
      failure(job).message,
      "rank 2 on worker node (host node), which is silent: rank 0: ranks 1, 2 did not arrive");
}

TEST_F(CoordinatorTest, AnAccusationAloneIsNothingThatAnybodySees) {
  Register("node", 3);
  const JobId job = SubmitAndRun(3);
  const AccusePeers accusation{Key(job, 0), {1, 2}, "ranks 1, 2 did not arrive"};
  EXPECT_TRUE(Apply(accusation).changed.empty());
  EXPECT_FALSE(Apply(accusation).journal);
}

TEST_F(CoordinatorTest, CancellingAPendingJobEndsItAtOnce) {
  const JobId job = Submit(1);
  Apply(CancelJob{job});
  EXPECT_EQ(state(job), "cancelled");
  EXPECT_EQ(failure(job).message, "cancelled while pending");
}

TEST_F(CoordinatorTest, CancellingARunningJobStopsItsRanksWhoseExitsAreNoFailures) {
  const WorkerId node = Register("node", 2);
  const JobId job = SubmitAndRun(2);
  Apply(CancelJob{job});
  EXPECT_EQ(assigned(node), "rank 0 stop, rank 1 stop");
  EXPECT_FALSE(Apply(CancelJob{job}).journal);
  Kill(job, 0, 15), Release(job, 0);
  Kill(job, 1, 9), Release(job, 1);
  EXPECT_EQ(state(job), "cancelled");
  EXPECT_EQ(failure(job).failure_class, FailureClass::kCancel);
}

TEST_F(CoordinatorTest, ARankThatNeverStartedIsReleasedWithoutAnExit) {
  Register("node", 1);
  const JobId job = SubmitAndPlace(1);
  Apply(CancelJob{job});
  Release(job, 0);
  EXPECT_EQ(state(job), "cancelled");
}

TEST_F(CoordinatorTest, AReportThatIsRepeatedOrLateChangesNothing) {
  Register("node", 1);
  const JobId job = SubmitAndRun(1);
  EXPECT_FALSE(Started(job, 0).journal);
  EXPECT_FALSE(Join(job, 0).journal);
  EXPECT_TRUE(ExitWith(job, 0, 0).journal);
  EXPECT_FALSE(ExitWith(job, 0, 1).journal);
  EXPECT_FALSE(Started(job, 0).journal);
  EXPECT_TRUE(Release(job, 0).journal);
  EXPECT_FALSE(Release(job, 0).journal);
  EXPECT_EQ(state(job), "succeeded");
}

TEST_F(CoordinatorTest, AJoinThatOvertakesTheReportOfTheStartKeepsThePid) {
  Register("node", 1);
  const JobId job = SubmitAndPlace(1);
  Join(job, 0);
  Started(job, 0);
  EXPECT_EQ(rank_state(job, 0), "joined");
  EXPECT_EQ(coordinator_.job(job)->ranks[0].pid, 1000);
}

TEST_F(CoordinatorTest, AStaleGenerationIsRefusedWithBothNumbers) {
  Register("node", 1);
  const JobId job = SubmitAndPlace(1);
  const Outcome outcome = Apply(JoinWorld{{job, Generation(7), 0}});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(message(outcome), "job 1: generation 7 has not begun, current is 1");
}

TEST_F(CoordinatorTest, AStaleIncarnationIsRefused) {
  Register("node", 1);
  const JobId job = SubmitAndPlace(1);
  ReportRank report = Report(job, 0, ReportRank::What::kStarted);
  report.incarnation = Incarnation(7);
  EXPECT_EQ(Apply(report).status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(rank_state(job, 0), "assigned");
}

TEST_F(CoordinatorTest, AWorkerCannotReportTheRankOfAnother) {
  const WorkerId a = Register("a", 1);
  Register("b", 1);
  const JobId job = SubmitAndRun(2);
  ReportRank report = Report(job, 1, ReportRank::What::kExited);
  report.worker = a;
  report.incarnation = life(a);
  EXPECT_EQ(message(Apply(report)), "job 1: rank 1 belongs to worker b, not to 1");
}

TEST_F(CoordinatorTest, APlacementOnASlotThatWasTakenMeanwhileIsAborted) {
  const WorkerId node = Register("node", 1);
  const JobId late = Submit(1);
  const Placement plan = PlanPlacement(coordinator_, policy_, now_);
  Lose(node);
  EXPECT_EQ(Apply(plan.place.at(0)).status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(state(late), "pending");
}

TEST_F(CoordinatorTest, TheWorldSaysWhoIsMissing) {
  Register("node1", 1), Register("node2", 2);
  const JobId job = SubmitAndPlace(3);
  Join(job, 0), Started(job, 2);
  EXPECT_EQ(coordinator_.world(job)->reason,
            "1 of 3 ranks have joined; missing: rank 1 on node2 (assigned), "
            "rank 2 on node2 (started)");
  Join(job, 1), Join(job, 2);
  EXPECT_EQ(coordinator_.world(job)->reason, "");
  EXPECT_EQ(coordinator_.world(job)->members.at(2).address, "node2.test");
}

TEST_F(CoordinatorTest, NobodyJoinsAWorldThatIsClosed) {
  Register("node", 2);
  const JobId job = SubmitAndPlace(2);
  Apply(CancelJob{job});
  EXPECT_EQ(message(Join(job, 0)), "the world is closed: cancelled while starting");
}

TEST_F(CoordinatorTest, ARepeatedSubmissionAnswersTheSameJob) {
  const SubmitJob submit = {"once", {"job", 1, ""}};
  const Outcome first = Apply(submit);
  const Outcome second = Apply(submit);
  EXPECT_EQ(std::get<JobId>(first.reply), std::get<JobId>(second.reply));
  EXPECT_FALSE(second.journal);
  EXPECT_EQ(coordinator_.jobs().size(), 1u);
}

TEST_F(CoordinatorTest, OnlyWhatWatchersCanSeeMovesTheirTopic) {
  const WorkerId node = Register("node", 2);
  const JobId job = SubmitAndPlace(2);
  EXPECT_THAT(Started(job, 0).changed, Not(Contains(WorldOf(job))));
  EXPECT_THAT(Join(job, 0).changed, Contains(WorldOf(job)));
  EXPECT_THAT(Join(job, 1).changed, Not(Contains(AssignmentOf(node))));
  EXPECT_THAT(Apply(CancelJob{job}).changed, Contains(AssignmentOf(node)));
  EXPECT_EQ(coordinator_.version(AssignmentOf(node)), coordinator_.revision());
}

TEST_F(CoordinatorTest, ARefusalChangesNothing) {
  Register("node", 1);
  const uint64_t before = coordinator_.StateDigest();
  EXPECT_THAT(Apply(CancelJob{JobId(99)}).changed, IsEmpty());
  Apply(SubmitJob{"request", {"job", 0, ""}});
  Apply(RegisterWorker{"", "bad host", "", Incarnation(5), 1});
  EXPECT_EQ(coordinator_.StateDigest(), before);
}

TEST_F(CoordinatorTest, ReplayOfTheJournalGivesTheSameStateInANewEpoch) {
  Apply(StartEpoch{});
  Register("node", 2);
  const JobId job = SubmitAndRun(2);
  Apply(StoreBatch{job, Generation(1), 1, 1, {StoreSet{"key", "value"}}});
  Coordinator replayed;
  for (const Command& command : journal_) replayed.Apply(command);
  EXPECT_EQ(replayed.StateDigest(), coordinator_.StateDigest());
  const Outcome start = replayed.Apply({now_, StartEpoch{}});
  EXPECT_GT(std::get<Epoch>(start.reply), coordinator_.epoch());
  EXPECT_EQ(Name(replayed.job(job)->state), "running");
}

// Two coordinators continue from the same copy: neither gives out a number that the other has used.
TEST_F(CoordinatorTest, NoEpochOrRevisionIsGivenTwiceFromAnOlderCopy) {
  now_ = absl::FromUnixSeconds(1'000'000);
  Apply(StartEpoch{});
  Register("node", 1);
  Coordinator restored = coordinator_;
  for (int starts = 0; starts < 3; ++starts) Apply(StartEpoch{});
  Submit(1);
  const Epoch epoch = coordinator_.epoch();
  const Revision revision = coordinator_.revision();
  restored.Apply({now_ + absl::Seconds(10), StartEpoch{}});
  EXPECT_GT(restored.epoch(), epoch);
  EXPECT_GT(restored.revision(), revision);
}

TEST_F(CoordinatorTest, EpochsOfEarlierReleasesAreCounted) {
  now_ = absl::FromUnixSeconds(1'000'000);
  Apply(StartEpoch{.version = 1});
  EXPECT_EQ(coordinator_.epoch(), Epoch(1));
  EXPECT_EQ(coordinator_.revision(), Revision(1));
}

}  // namespace
}  // namespace dp::core

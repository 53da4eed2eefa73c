#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/policy/retry_policy.h"
#include "server/policy/testing/coordinator_fixture.h"

// Restarts in the whole machine: the job, and its slots.

namespace dp::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RestartTest : public CoordinatorFixture {
 protected:
  JobId SubmitRestartable(int ranks, RestartLimits limits = {}, int nodes = 0) {
    JobSpec spec{.name = "job", .ranks = ranks, .nodes = nodes};
    spec.restart = limits;
    return SubmitSpec(spec);
  }
  JobId Run(int ranks, RestartLimits limits = {.user = 5}, int nodes = 0) {
    const JobId job = SubmitRestartable(ranks, limits, nodes);
    PlaceAll();
    JoinAll(job);
    return job;
  }
  JobId RunProgram(int ranks) {
    JobSpec spec{.name = "job", .ranks = ranks, .joins_by_running = true};
    spec.restart = RestartLimits();
    const JobId job = SubmitSpec(spec);
    PlaceAll();
    for (int rank = 0; rank < ranks; ++rank) Started(job, rank);
    return job;
  }
  void JoinAll(JobId job) {
    for (int rank = 0; rank < coordinator_.job(job)->spec.ranks; ++rank) Join(job, rank);
  }
  // The ranks end and are released; `first` fails by itself.
  void Fail(JobId job, int first = 0) {
    ExitWith(job, first, 3);
    for (int rank = 0; rank < coordinator_.job(job)->spec.ranks; ++rank) {
      if (!coordinator_.job(job)->ranks[rank].live()) continue;
      Kill(job, rank, 15);
      Release(job, rank);
    }
  }
  void DecideRetries() {
    for (const Action& verdict : PlanRetries(coordinator_, now_)) {
      EXPECT_EQ(Apply(verdict).status, absl::OkStatus());
    }
  }
  void Restart(JobId job) {
    Fail(job);
    DecideRetries();
    PlaceAll();
  }
  uint64_t generation(JobId job) const { return coordinator_.job(job)->generation.value(); }
};

TEST_F(RestartTest, WhoWasSuspectedOrSpokeInOneGenerationDidNotInTheNext) {
  Register("node", 3);
  const JobId job = Run(3);
  Apply(AccusePeers{Key(job, 0), {1, 2}, "ranks 1, 2 did not arrive"});
  Restart(job);
  JoinAll(job);
  Apply(AccusePeers{Key(job, 2), {0, 1}, "ranks 0, 1 did not arrive"});
  EXPECT_EQ(state(job), "running");
  Apply(AccusePeers{Key(job, 1), {}, "rank 2 went away"});
  EXPECT_EQ(failure(job).rank, 0);
}

TEST_F(RestartTest, ARestartIsTheNextGenerationOnTheSamePlaces) {
  Register("a", 2), Register("b", 2);
  const JobId job = Run(3);
  const std::string before = places(job);
  Restart(job);
  EXPECT_EQ(state(job), "starting");
  EXPECT_EQ(generation(job), 2u);
  EXPECT_EQ(places(job), before);
  EXPECT_EQ(rank_state(job, 0), "assigned");
}

// The blame is unknown if the coordinator was away, or held back its verdicts.
TEST_F(RestartTest, ARankThatHasLostItsPeersIsNotTheOneToBlame) {
  Register("a", 2);
  const JobId job = SubmitAndRun(2);
  ExitWith(job, 1, kLostPeersExitCode);
  EXPECT_EQ(failure(job).failure_class, FailureClass::kInfra);
  EXPECT_EQ(failure(job).message,
            "rank 1 on worker a (host a): exit code 76, as it had lost its peers; its last "
            "lines say how");
}

TEST_F(RestartTest, TheSameCodeOfAnotherProgramIsItsOwnAffair) {
  Register("a", 1);
  const JobId job = SubmitCommandAndPlace(1);
  Started(job, 0);
  ExitWith(job, 0, kLostPeersExitCode);
  EXPECT_EQ(failure(job).failure_class, FailureClass::kUser);
}

// Two ranks of a program on two workers; rank 0 fails as its peer's host dies.
class LostPeerTest : public RestartTest {
 protected:
  LostPeerTest() {
    Register("a", 1), lost_ = Register("b", 1);
    job_ = SubmitCommandAndPlace(2);
    Started(job_, 0), Started(job_, 1);
  }

  WorkerId lost_;
  JobId job_;
};

TEST_F(LostPeerTest, AProgramThatFailsBecauseItsPeersWorkerIsLostIsNotToBlame) {
  ExitWith(job_, 0, 1);
  const absl::Time at = failure(job_).at;
  now_ += absl::Seconds(5);
  Lose(lost_);
  EXPECT_EQ(failure(job_).failure_class, FailureClass::kInfra);
  EXPECT_EQ(failure(job_).rank, 1);
  EXPECT_EQ(failure(job_).message,
            "worker b on host b was lost with rank 1: no heartbeat for 6s; then rank 0 on worker a "
            "(host a): exit code 1");
  EXPECT_EQ(failure(job_).at, at);
  EXPECT_EQ(failure(job_).generation, Generation(1));
}

TEST_F(LostPeerTest, AJournalOfTheVersionBeforeMeansWhatItDid) {
  ExitWith(job_, 0, 1);
  Apply(LoseWorker{lost_, life(lost_), "no heartbeat for 6s", /*version=*/1});
  EXPECT_EQ(failure(job_).failure_class, FailureClass::kUser);
}

TEST_F(LostPeerTest, ARankWhoseExitWasReportedTakesNoBlameForItsWorker) {
  ExitWith(job_, 0, 1), ExitWith(job_, 1, 1);
  Lose(lost_);
  EXPECT_EQ(failure(job_).failure_class, FailureClass::kUser);
}

TEST_F(LostPeerTest, AnotherCauseThanAnExitStays) {
  Apply(CancelJob{job_});
  Lose(lost_);
  EXPECT_EQ(failure(job_).failure_class, FailureClass::kCancel);
}

TEST_F(RestartTest, NoVerdictIsDueWhileARankHoldsASlot) {
  Register("a", 2);
  const JobId job = Run(2);
  ExitWith(job, 0, 3), Release(job, 0);
  EXPECT_THAT(PlanRetries(coordinator_, now_), IsEmpty());
  const RetryJob early{job, Generation(1), now_, {}};
  EXPECT_EQ(Apply(early).status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RestartTest, AVerdictOnAnotherGenerationIsRefused) {
  Register("a", 1);
  const JobId job = Run(1);
  Fail(job);
  EXPECT_EQ(Apply(FinishJob{job, Generation(2), "late"}).status.code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(state(job), "stopping");
}

TEST_F(RestartTest, TheFailuresOfEarlierGenerationsStayOnRecord) {
  Register("a", 1);
  const JobId job = Run(1, {.user = 100, .startup = 10});
  for (int i = 0; i < 12; ++i) {
    Restart(job);
    if (state(job) == "pending") {
      now_ += absl::Minutes(2);
      PlaceAll();
    }
    JoinAll(job);
  }
  const Job& record = *coordinator_.job(job);
  EXPECT_EQ(record.past.size(), kPastFailuresMax);
  EXPECT_EQ(record.past.back().failure.generation.value(), 12u);
  EXPECT_EQ(record.restart_count, 12);
  EXPECT_THAT(record.past.back().failure.message, HasSubstr("exit code 3"));
}

TEST_F(RestartTest, ItsStoreStartsEmptyAndOnAnotherPort) {
  Register("a", 1);
  JobSpec spec{.name = "job", .ranks = 1, .store_port = true, .joins_by_running = true};
  spec.restart = RestartLimits{.user = 1};
  const JobId job = SubmitSpec(spec);
  const auto place = [&] {
    for (const PlaceJob& each : PlanPlacement(coordinator_, {}, now_).place) Apply(each);
    return coordinator_.job(job)->store_port;
  };
  const int first = place();
  Started(job, 0);
  Apply(StoreBatch{job, Generation(1), 1, 1, {StoreSet{"key", "old"}}});
  Fail(job);
  EXPECT_EQ(coordinator_.job(job)->store_port, 0);
  DecideRetries();
  EXPECT_NE(place(), first);
  EXPECT_FALSE((*coordinator_.store(job, Generation(2)))->Missing({StoreGet{"key"}}).empty());
  EXPECT_FALSE(coordinator_.store(job, Generation(1)).ok());
}

TEST_F(RestartTest, NobodyTakesItsSlotsBeforeItsLastRankIsGone) {
  Register("a", 2);
  const JobId job = Run(2);
  const JobId small = Submit(1);
  ExitWith(job, 0, 3), Release(job, 0);
  PlaceAll();
  EXPECT_EQ(state(small), "pending");
  Kill(job, 1, 15), Release(job, 1);
  DecideRetries();
  PlaceAll();
  EXPECT_EQ(state(job), "starting");
  EXPECT_EQ(state(small), "pending");
}

TEST_F(RestartTest, OneThatCannotBeRestartedFreesItsSlotsAtOnce) {
  Register("a", 2);
  const JobId job = SubmitAndRun(2);
  const JobId small = Submit(1);
  ExitWith(job, 0, 3), Release(job, 0);
  PlaceAll();
  EXPECT_EQ(state(small), "starting");
}

TEST_F(RestartTest, TheRanksOfALostWorkerMoveTogetherToASpareOne) {
  Register("a", 2);
  const WorkerId lost = Register("b", 2);
  Register("c", 2);
  const JobId job = Run(6, {}, 3);
  Register("spare", 2), Register("large", 4);
  Lose(lost);
  for (const int rank : {0, 1, 4, 5}) Kill(job, rank, 15), Release(job, rank);
  DecideRetries();
  PlaceAll();
  EXPECT_EQ(places(job), "a/0 a/1 spare/0 spare/1 c/0 c/1");
}

TEST_F(RestartTest, AWorkerThatCameBackInTimeKeepsItsRanks) {
  Register("a", 1);
  const WorkerId lost = Register("b", 1);
  Register("c", 1);
  const JobId job = Run(2);
  EXPECT_EQ(places(job), "a/0 b/0");
  Lose(lost);
  Register("b", 1, "b");
  Kill(job, 0, 15), Release(job, 0);
  DecideRetries();
  PlaceAll();
  EXPECT_EQ(places(job), "a/0 b/0");
}

TEST_F(RestartTest, WhereNoWorkerTakesOverAllArePlacedAfresh) {
  const WorkerId lost = Register("a", 2);
  Register("b", 1);
  const JobId job = Run(3);
  Register("c", 1), Register("d", 1);
  Lose(lost);
  Kill(job, 2, 15), Release(job, 2);
  DecideRetries();
  PlaceAll();
  EXPECT_EQ(places(job), "b/0 c/0 d/0");
}

TEST_F(RestartTest, ABackOffHoldsItBackAndLetsOthersPass) {
  Register("a", 1);
  const JobId job = Run(1);
  Restart(job);
  JoinAll(job);
  Fail(job);
  const absl::Time decided = now_;
  DecideRetries();
  const JobId other = Submit(1);
  const Placement plan = PlanPlacement(coordinator_, {}, decided);
  EXPECT_EQ(plan.again_at, decided + kBackOff);
  EXPECT_THAT(TextsOf(plan, job), ElementsAre(HasSubstr("not due yet")));
  ASSERT_EQ(plan.place.size(), 1u);
  EXPECT_EQ(plan.place[0].job, other);
  EXPECT_EQ(PlanPlacement(coordinator_, {}, decided + kBackOff).place[0].job, job);
}

TEST_F(RestartTest, ABackOffIsToldBesideTheOtherReasons) {
  Register("a", 1);
  const JobId job = Run(1);
  Restart(job);
  JoinAll(job);
  Fail(job);
  const absl::Time decided = now_;
  DecideRetries();
  Apply(HoldJob{job});
  EXPECT_THAT(TextsOf(PlanPlacement(coordinator_, {}, decided), job),
              ElementsAre(HasSubstr("held until"), HasSubstr("not due yet")));
}

TEST_F(RestartTest, AWorkerThatIsShutDownIsItsHostsFailure) {
  Register("a", 1);
  const JobId job = Run(1, {});
  ReportRank report = Report(job, 0, ReportRank::What::kExited);
  report.exit = {core::Exit::How::kSignal, 9};
  report.stopped = true;
  report.stop_reason = "its worker has lost touch with the coordinator";
  Apply(report), Release(job, 0);
  EXPECT_EQ(failure(job).failure_class, FailureClass::kInfra);
  EXPECT_THAT(failure(job).message, HasSubstr("has lost touch"));
  DecideRetries();
  EXPECT_EQ(state(job), "pending");
}

// A program may save and exit with 0 when it is stopped.
TEST_F(RestartTest, AProgramThatObeyedTheShutdownOfItsWorkerIsNotDone) {
  Register("a", 1);
  const JobId job = RunProgram(1);
  ReportRank report = Report(job, 0, ReportRank::What::kExited);
  report.exit = {core::Exit::How::kCode, 0};
  report.stopped = true;
  Apply(report), Release(job, 0);
  EXPECT_EQ(failure(job).failure_class, FailureClass::kInfra);
  EXPECT_THAT(failure(job).message,
              HasSubstr("exit code 0, stopped because its worker is shutting down"));
  DecideRetries();
  EXPECT_EQ(state(job), "pending");
}

TEST_F(RestartTest, ATrainerThatEndsWellWhileItsWorkerShutsDownIsDone) {
  Register("a", 1);
  const JobId job = Run(1, {});
  ReportRank report = Report(job, 0, ReportRank::What::kExited);
  report.exit = {core::Exit::How::kCode, 0};
  report.stopped = true;
  Apply(report), Release(job, 0);
  EXPECT_EQ(state(job), "succeeded");
}

TEST_F(RestartTest, ARecordOfAnEarlierReleaseTakesExitCode0ForSuccess) {
  Register("a", 1);
  const JobId job = RunProgram(1);
  ReportRank report = Report(job, 0, ReportRank::What::kExited);
  report.stopped = true;
  report.version = 1;
  Apply(report), Release(job, 0);
  EXPECT_EQ(state(job), "succeeded");
}

TEST_F(RestartTest, ARankThatFailsWhileThatOfAnotherWorkerIsEndedIsNotToBlame) {
  Register("a", 1), Register("b", 1);
  const JobId job = RunProgram(2);
  const Worker* const a = coordinator_.worker(coordinator_.job(job)->ranks[0].worker_id);
  Apply(LeaveWorker{a->id, a->incarnation});
  ExitWith(job, 1, 1);
  EXPECT_EQ(failure(job).failure_class, FailureClass::kInfra);
  EXPECT_THAT(failure(job).message, HasSubstr("while worker a was shutting down"));
}

TEST_F(RestartTest, WantOfMemoryIsAClassOfItsOwn) {
  Register("a", 1);
  const JobId job = Run(1, {});
  ReportRank report = Report(job, 0, ReportRank::What::kExited);
  report.exit = {core::Exit::How::kSignal, 9};
  report.oom = true;
  Apply(report);
  EXPECT_EQ(failure(job).failure_class, FailureClass::kOom);
}

TEST_F(RestartTest, ACancellationWhileItStopsIsTheEnd) {
  Register("a", 1);
  const JobId job = Run(1);
  ExitWith(job, 0, 3);
  Apply(CancelJob{job});
  Release(job, 0);
  EXPECT_EQ(state(job), "failed");
  EXPECT_EQ(coordinator_.job(job)->not_restarted, "cancelled while it was stopping");
}

TEST_F(RestartTest, ACancellationBetweenTwoGenerationsIsTheEnd) {
  Register("a", 1);
  const JobId job = Run(1);
  Fail(job);
  DecideRetries();
  Apply(CancelJob{job});
  EXPECT_EQ(state(job), "cancelled");
}

TEST_F(RestartTest, TheJournalReplaysRestarts) {
  Register("a", 2);
  const JobId job = Run(2);
  Restart(job);
  JoinAll(job);
  Fail(job, 1);
  DecideRetries();
  Coordinator replayed;
  for (const Command& command : journal_) replayed.Apply(command);
  EXPECT_EQ(replayed.StateDigest(), coordinator_.StateDigest());
}

}  // namespace
}  // namespace dp::core

#include "worker/core/supervisor.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kGrace = absl::Seconds(10);
const absl::Time kStart = absl::UnixEpoch();

AssignedRank ARank(int rank, bool stop = false) {
  return {.key = {JobId(7), Generation(1), rank}, .stop = stop, .grace = kGrace};
}
RankKey Key(int rank) { return ARank(rank).key; }

// One decision at a time: a test arranges desired and observed, and asks once.
class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() { observed_.Reachable(kStart); }

  void Assign(int rank, bool stop = false) { desired_.ranks[Key(rank)] = ARank(rank, stop); }
  void Unassign(int rank) { desired_.ranks.erase(Key(rank)); }
  void Run(int rank) {
    observed_.AskedToStart(ARank(rank));
    observed_.Started(Key(rank), 100 + rank);
    observed_.Acknowledged(Key(rank), Milestone::kStarted);
  }
  void Exit(int rank) { observed_.Exited(Key(rank), {}, {}); }
  void End(int rank) {
    Exit(rank);
    observed_.Gone(Key(rank), kStart);
  }
  // Only the rank's logs are left, and its exit is acknowledged.
  void RunToTheEnd(int rank) {
    Assign(rank);
    Run(rank);
    End(rank);
    observed_.Acknowledged(Key(rank), Milestone::kExited);
  }
  Decision At(absl::Duration after_start) const {
    return Reconcile(desired_, observed_, kStart + after_start);
  }
  std::vector<Action> Actions(absl::Duration after_start = absl::ZeroDuration()) const {
    return At(after_start).actions;
  }

  Desired desired_;
  Observed observed_;
};

TEST_F(SupervisorTest, AnAssignedRankThatIsNotKnownIsStarted) {
  Assign(0);
  EXPECT_THAT(Actions(), ElementsAre(Start{ARank(0)}));
}

// The coordinator has lost its latest jobs and has reused a number.
TEST_F(SupervisorTest, ARankOfAnotherJobOfTheSameNumberIsKilledAndTheAssignedOneStarted) {
  AssignedRank old = ARank(0), assigned = ARank(0);
  old.job_submitted_at = kStart + absl::Seconds(1);
  assigned.job_submitted_at = kStart + absl::Seconds(2);
  observed_.AskedToStart(old);
  observed_.Started(Key(0), 100);
  desired_.ranks[Key(0)] = assigned;
  EXPECT_THAT(Actions(), ElementsAre(Kill{Key(0)}));
  observed_.Killed(Key(0));
  EXPECT_THAT(Actions(), IsEmpty());  // no report mixes up the two jobs
  End(0);
  EXPECT_THAT(Actions(), ElementsAre(Forget{Key(0)}));
  observed_.Forgotten(Key(0));
  EXPECT_THAT(Actions(), ElementsAre(Start{assigned}));
}

TEST_F(SupervisorTest, ACoordinatorThatDoesNotSayWhenTheJobWasSubmittedKeepsItsRanks) {
  AssignedRank known = ARank(0);
  known.job_submitted_at = kStart + absl::Seconds(1);
  observed_.AskedToStart(known);
  Assign(0);
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(SupervisorTest, ARankWhoseSlotIsStillInUseIsStartedWhenItIsFree) {
  Assign(0);
  observed_.SlotIs(0, {.state = SlotFitness::State::kReturning});
  EXPECT_THAT(Actions(), IsEmpty());
  observed_.SlotIs(0, {});
  EXPECT_THAT(Actions(), ElementsAre(Start{ARank(0)}));
}

TEST_F(SupervisorTest, ARankWhoseSlotCannotBeUsedIsDeclinedWithTheReason) {
  Assign(0);
  observed_.SlotIs(0, {.state = SlotFitness::State::kUnfit, .reason = "GPU 0 is lost"});
  EXPECT_THAT(Actions(), ElementsAre(Decline{ARank(0), "GPU 0 is lost"}));
}

TEST_F(SupervisorTest, ASlotIsNotReleasedBeforeItsDevicesAreFree) {
  Assign(0);
  Run(0);
  observed_.SlotIs(0, {.state = SlotFitness::State::kReturning});
  End(0);
  observed_.LogsShipped(Key(0));
  observed_.Acknowledged(Key(0), Milestone::kExited);
  EXPECT_THAT(Actions(absl::Hours(1)), IsEmpty());
  observed_.SlotIs(0, {});
  EXPECT_THAT(Actions(), ElementsAre(Report{Key(0), Milestone::kReleased}));
}

TEST_F(SupervisorTest, AnUnfitSlotIsReleasedOnceTheCoordinatorWillGiveItToNobody) {
  Assign(0);
  Run(0);
  End(0);
  observed_.LogsShipped(Key(0));
  observed_.Acknowledged(Key(0), Milestone::kExited);
  observed_.SlotIs(0, {.state = SlotFitness::State::kUnfit, .reason = "in use"});
  EXPECT_THAT(Actions(), IsEmpty());
  observed_.SlotIs(0, {.state = SlotFitness::State::kUnfit, .reason = "in use", .told = true});
  EXPECT_THAT(Actions(), ElementsAre(Report{Key(0), Milestone::kReleased}));
}

TEST_F(SupervisorTest, ADaemonThatEndsWaitsForNoDevice) {
  Assign(0);
  Run(0);
  End(0);
  observed_.LogsShipped(Key(0));
  observed_.Acknowledged(Key(0), Milestone::kExited);
  observed_.SlotIs(0, {.state = SlotFitness::State::kReturning});
  desired_.mode = Mode::kStop;
  EXPECT_THAT(Actions(), ElementsAre(Report{Key(0), Milestone::kReleased}));
}

TEST_F(SupervisorTest, ARankThatRunsAsAssignedIsLeftAlone) {
  Assign(0);
  Run(0);
  EXPECT_THAT(Actions(), IsEmpty());
  EXPECT_EQ(At({}).ask_again_at, absl::InfiniteFuture());
}

TEST_F(SupervisorTest, ARankThatIsOverIsNotStartedAgainWhileItIsStillAssigned) {
  Assign(0);
  Run(0);
  End(0);
  observed_.Acknowledged(Key(0), Milestone::kReleased);
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(SupervisorTest, ARankStoppedBeforeItsStartIsDeclined) {
  Assign(0, /*stop=*/true);
  EXPECT_THAT(Actions(), ElementsAre(Decline{ARank(0, true), "stopped before it was started"}));
}

TEST_F(SupervisorTest, AStoppedRankIsTerminatedAndAskedAboutWhenItsGraceEnds) {
  Assign(0, /*stop=*/true);
  Run(0);
  EXPECT_THAT(Actions(), ElementsAre(Terminate{Key(0)}));
  EXPECT_EQ(At({}).ask_again_at, kStart + kGrace);
}

TEST_F(SupervisorTest, ATerminatedRankIsKilledOnlyWhenItsGraceHasPassed) {
  Assign(0, /*stop=*/true);
  Run(0);
  observed_.Terminated(Key(0), kStart);
  EXPECT_THAT(Actions(kGrace - absl::Milliseconds(1)), IsEmpty());
  EXPECT_THAT(Actions(kGrace), ElementsAre(Kill{Key(0)}));
}

TEST_F(SupervisorTest, AKilledRankIsNotKilledAgain) {
  Assign(0, /*stop=*/true);
  Run(0);
  observed_.Terminated(Key(0), kStart);
  observed_.Killed(Key(0));
  EXPECT_THAT(Actions(kGrace), IsEmpty());
}

TEST_F(SupervisorTest, ARankThatIsNoLongerAssignedIsKilledAtOnceAndNotReported) {
  Run(0);
  EXPECT_THAT(Actions(), ElementsAre(Kill{Key(0)}));
  End(0);
  EXPECT_THAT(Actions(), ElementsAre(Forget{Key(0)}));
}

TEST_F(SupervisorTest, AnExitIsReportedBeforeTheTreeIsGone) {
  Assign(0);
  Run(0);
  Exit(0);
  EXPECT_THAT(Actions(), ElementsAre(Report{Key(0), Milestone::kExited}));
}

TEST_F(SupervisorTest, AnExitCarriesMoreThanAReleaseSoItIsToldFirst) {
  Assign(0);
  Run(0);
  End(0);
  observed_.LogsShipped(Key(0));
  EXPECT_THAT(Actions(), ElementsAre(Report{Key(0), Milestone::kExited}));
  observed_.Acknowledged(Key(0), Milestone::kExited);
  EXPECT_THAT(Actions(), ElementsAre(Report{Key(0), Milestone::kReleased}));
}

TEST_F(SupervisorTest, TheReleaseWaitsForTheTreeToBeGone) {
  Assign(0);
  Run(0);
  Exit(0);
  observed_.LogsShipped(Key(0));
  observed_.Acknowledged(Key(0), Milestone::kExited);
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(SupervisorTest, TheReleaseWaitsForLogsAsLongAsTheyMove) {
  RunToTheEnd(0);
  observed_.LogsMoved(Key(0), kStart + absl::Seconds(5));
  const absl::Duration given_up = absl::Seconds(5) + kLogsPatience;
  EXPECT_EQ(At({}).ask_again_at, kStart + given_up);
  EXPECT_THAT(Actions(given_up - absl::Milliseconds(1)), IsEmpty());
  EXPECT_THAT(Actions(given_up), ElementsAre(Report{Key(0), Milestone::kReleased}));
}

TEST_F(SupervisorTest, TheReleaseDoesNotWaitForLogsThatTheCoordinatorHasNoRoomFor) {
  RunToTheEnd(0);
  observed_.LogsRefused(Key(0));
  EXPECT_THAT(Actions(), ElementsAre(Report{Key(0), Milestone::kReleased}));
}

TEST_F(SupervisorTest, ARefusalIsForgottenOnceLogsMoveAgain) {
  RunToTheEnd(0);
  observed_.LogsRefused(Key(0));
  observed_.LogsMoved(Key(0), kStart);
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(SupervisorTest, LogsAreNotGivenUpWhileTheCoordinatorIsSilent) {
  RunToTheEnd(0);
  observed_.Unreachable();
  EXPECT_THAT(Actions(absl::Hours(1)), IsEmpty());
  observed_.Reachable(kStart + absl::Hours(1));
  EXPECT_EQ(At(absl::Hours(1)).ask_again_at, kStart + absl::Hours(1) + kLogsPatience);
}

TEST_F(SupervisorTest, TheFirstRankThatDiedIsReportedFirst) {
  Assign(0);
  Assign(1);
  Run(0);
  Run(1);
  Exit(1);
  Exit(0);
  EXPECT_THAT(Actions(),
              ElementsAre(Report{Key(1), Milestone::kExited}, Report{Key(0), Milestone::kExited}));
}

TEST_F(SupervisorTest, ALostLeaseKillsEveryRankAtOnceAndReportsNothing) {
  Assign(0);
  Assign(1);
  Run(0);
  Run(1);
  Exit(1);
  desired_.mode = Mode::kAbandon;
  EXPECT_THAT(Actions(), ElementsAre(Kill{Key(0)}));
  EXPECT_FALSE(At({}).finished);
}

TEST_F(SupervisorTest, AnAbandonedWorkerIsFinishedWhenNoProcessIsLeft) {
  Assign(0);
  Run(0);
  End(0);
  desired_.mode = Mode::kAbandon;
  EXPECT_THAT(Actions(), ElementsAre(Forget{Key(0)}));
  EXPECT_TRUE(At({}).finished);
}

TEST_F(SupervisorTest, AStoppingWorkerTerminatesWhatRunsAndDeclinesTheRest) {
  Assign(0);
  Assign(1);
  Run(0);
  desired_.mode = Mode::kStop;
  EXPECT_THAT(Actions(),
              ElementsAre(Decline{ARank(1), "the worker is shutting down"}, Terminate{Key(0)}));
  EXPECT_FALSE(At({}).finished);
}

// Otherwise the coordinator could place the job's next generation here again.
TEST_F(SupervisorTest, AStoppingWorkerReportsNothingBeforeItsShutdownIsTold) {
  Assign(0);
  Run(0);
  End(0);
  Assign(1);
  Run(1);
  desired_ = {.mode = Mode::kStop, .announcing = true, .ranks = desired_.ranks};
  EXPECT_THAT(Actions(), ElementsAre(Terminate{Key(1)}));
  observed_.Unreachable();
  End(1);
  EXPECT_FALSE(At({}).finished);
  desired_.announcing = false;
  EXPECT_TRUE(At({}).finished);
  EXPECT_THAT(Actions(),
              ElementsAre(Report{Key(0), Milestone::kExited}, Report{Key(1), Milestone::kExited}));
}

TEST_F(SupervisorTest, AStoppingWorkerIsFinishedWhenEveryReleaseIsTold) {
  Assign(0);
  Run(0);
  End(0);
  desired_.mode = Mode::kStop;
  EXPECT_FALSE(At({}).finished);
  observed_.Acknowledged(Key(0), Milestone::kReleased);
  EXPECT_TRUE(At({}).finished);
}

TEST_F(SupervisorTest, AStoppingWorkerDoesNotWaitForASilentCoordinator) {
  Assign(0);
  Run(0);
  End(0);
  desired_.mode = Mode::kStop;
  observed_.Unreachable();
  EXPECT_TRUE(At({}).finished);
}

// A rank that must not outlive contact, with a lease that holds for another four seconds.
class IsolationTest : public SupervisorTest {
 protected:
  IsolationTest() { observed_.LeaseHeldUntil(kStart + kHeld); }

  static constexpr absl::Duration kHeld = absl::Seconds(4);
  void AssignBound(int rank) {
    Assign(rank);
    desired_.ranks[Key(rank)].stop_when_isolated = true;
  }
};

TEST_F(IsolationTest, ItIsKilledWhenTouchIsLostWhateverItsGrace) {
  AssignBound(0);
  Run(0);
  EXPECT_THAT(Actions(kHeld - absl::Milliseconds(1)), IsEmpty());
  EXPECT_EQ(At({}).ask_again_at, kStart + kHeld);
  EXPECT_THAT(Actions(kHeld), ElementsAre(Kill{Key(0), /*isolated=*/true}));
}

TEST_F(IsolationTest, OthersAreLeftAlone) {
  Assign(0);
  Run(0);
  EXPECT_THAT(Actions(absl::Hours(1)), IsEmpty());
}

TEST_F(IsolationTest, AnAnswerHoldsTheLeaseForLonger) {
  AssignBound(0);
  Run(0);
  observed_.LeaseHeldUntil(kStart + 2 * kHeld);
  EXPECT_THAT(Actions(kHeld), IsEmpty());
}

TEST_F(IsolationTest, WithoutTouchNoneIsStarted) {
  AssignBound(0);
  EXPECT_THAT(Actions(kHeld), IsEmpty());
}

TEST_F(IsolationTest, ItsEndIsReportedAsTheDaemonsDoing) {
  AssignBound(0);
  Run(0);
  observed_.Killed(Key(0), /*isolated=*/true);
  Exit(0);
  EXPECT_THAT(Actions(kHeld), ElementsAre(Report{Key(0), Milestone::kExited}));
  EXPECT_TRUE(observed_.Find(Key(0))->stopped());
}

TEST_F(SupervisorTest, WantOfMemoryIsNotToldOfARankThatTheDaemonKilled) {
  Assign(0), Assign(1);
  Run(0), Run(1);
  observed_.Killed(Key(0));
  for (const int rank : {0, 1}) {
    observed_.Exited(Key(rank), {Exit::How::kSignal, 9}, {}, /*oom=*/true);
  }
  EXPECT_FALSE(observed_.Find(Key(0))->oom);
  EXPECT_TRUE(observed_.Find(Key(1))->oom);
}

}  // namespace
}  // namespace dp::worker

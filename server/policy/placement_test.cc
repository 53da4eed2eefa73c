#include "server/policy/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PlacementTest : public CoordinatorFixture {
 protected:
  std::vector<std::string> reasons(JobId job) const {
    return TextsOf(PlanPlacement(coordinator_, policy_, now_), job);
  }
};

TEST_F(PlacementTest, RanksOfOneWorkerAreAdjacentAndWorkersInNaturalOrder) {
  Register("node10", 2), Register("node2", 2), Register("node1", 1);
  EXPECT_EQ(places(SubmitAndPlace(5)), "node1/0 node2/0 node2/1 node10/0 node10/1");
}

TEST_F(PlacementTest, AJobGoesToTheTightestWorkerThatHoldsItWhole) {
  Register("a", 4), Register("b", 2), Register("c", 1);
  EXPECT_EQ(places(SubmitAndPlace(2)), "b/0 b/1");
  EXPECT_EQ(places(SubmitAndPlace(3)), "a/0 a/1 a/2");
}

TEST_F(PlacementTest, AJobTakesAsFewWorkersAsPossible) {
  Register("a", 1), Register("b", 3), Register("c", 1), Register("d", 2);
  EXPECT_EQ(places(SubmitAndPlace(4)), "a/0 b/0 b/1 b/2");
}

TEST_F(PlacementTest, AJobIsPlacedWholeOrNotAtAll) {
  Register("node", 3);
  const JobId first = SubmitAndPlace(2);
  const JobId second = SubmitAndPlace(2);
  EXPECT_EQ(state(first), "starting");
  EXPECT_EQ(state(second), "pending");
  EXPECT_THAT(reasons(second), ElementsAre("needs 2 slots, 1 free of 3 in all on 1 worker"));
}

TEST_F(PlacementTest, AJobThatIsTooLargeSaysWhatIsMissing) {
  Register("node", 2);
  EXPECT_THAT(reasons(Submit(4)),
              ElementsAre("needs 4 slots, 2 free of 2 in all on 1 worker",
                          "2 slots missing: start more workers, or submit with fewer ranks"));
}

TEST_F(PlacementTest, AJobThatFitsOnlyLaterKeepsItsTurn) {
  Register("node", 2);
  const JobId running = SubmitAndPlace(1);
  const JobId large = SubmitAndPlace(2);
  const JobId small = SubmitAndPlace(1);
  EXPECT_EQ(state(small), "pending");
  EXPECT_THAT(reasons(small), ElementsAre("job 2 is ahead of it"));
  ExitWith(running, 0, 0), Release(running, 0);
  PlaceAll();
  EXPECT_EQ(state(large), "starting");
}

TEST_F(PlacementTest, AJobThatFitsNowhereLetsTheOthersPass) {
  Register("node", 2);
  const JobId huge = Submit(3);
  const JobId small = SubmitAndPlace(1);
  EXPECT_EQ(state(huge), "pending");
  EXPECT_EQ(state(small), "starting");
}

TEST_F(PlacementTest, LocalRanksCountOnEachWorker) {
  Register("a", 2), Register("b", 2);
  const JobId job = SubmitAndPlace(4);
  std::vector<int> local_ranks;
  for (const Rank& rank : coordinator_.job(job)->ranks) local_ranks.push_back(rank.local_rank);
  EXPECT_THAT(local_ranks, ElementsAre(0, 1, 0, 1));
}

TEST_F(PlacementTest, AJobThatSaysOnHowManyWorkersGetsSoManyWithTheSameNumberOnEach) {
  Register("node10", 4), Register("node2", 3), Register("node1", 2), Register("node3", 1);
  EXPECT_EQ(places(SubmitCommandAndPlace(4, 2)), "node1/0 node1/1 node2/0 node2/1");
  EXPECT_EQ(places(SubmitCommandAndPlace(3, 3)), "node2/2 node3/0 node10/0");
}

TEST_F(PlacementTest, SlotsOnTooFewWorkersAreNotEnough) {
  Register("a", 8), Register("b", 1);
  const JobId job = SubmitCommandAndPlace(4, 2);
  EXPECT_THAT(reasons(job),
              ElementsAre("needs 2 workers with 2 slots each, 1 of 2 workers free for it",
                          "1 worker with 2 slots missing: start more, or submit with fewer nodes "
                          "or ranks on each"));
  const JobId behind = SubmitAndPlace(9);
  EXPECT_EQ(state(behind), "starting");
}

TEST_F(PlacementTest, AJobWhoseWorkersAreBusyKeepsItsTurn) {
  Register("a", 2), Register("b", 2);
  SubmitAndPlace(1);
  const JobId waits = SubmitCommandAndPlace(4, 2);
  const JobId small = SubmitAndPlace(1);
  EXPECT_THAT(reasons(waits),
              ElementsAre("needs 2 workers with 2 slots each, 1 of 2 workers free for it"));
  EXPECT_EQ(state(small), "pending");
}

TEST_F(PlacementTest, WithoutWorkersNothingIsPlaced) {
  const JobId job = Submit(1);
  EXPECT_THAT(PlanPlacement(coordinator_, policy_, now_).place, IsEmpty());
  EXPECT_EQ(reasons(job).front(), "needs 1 slot, 0 free of 0 in all on 0 workers");
}

class StorePortTest : public CoordinatorFixture {
 protected:
  JobId Submit() {
    return SubmitSpec({.name = "job", .ranks = 1, .payload = "", .store_port = true});
  }
  // Applies the placement's verdicts. Returns the whole placement.
  Placement Place() {
    Placement placement = PlanPlacement(coordinator_, {.ports = ports_}, now_);
    for (const PlaceJob& place : placement.place) {
      EXPECT_EQ(Apply(place).status, absl::OkStatus());
    }
    return placement;
  }
  int port(JobId job) const { return coordinator_.job(job)->store_port; }
  void End(JobId job) { ExitWith(job, 0, 0), Release(job, 0); }

  StorePortRange ports_{.first = 4000, .last = 4001, .rest = absl::Minutes(10)};
};

TEST_F(StorePortTest, EachJobHasAPortOfItsOwn) {
  Register("node", 3);
  const JobId first = Submit(), second = Submit(), without = CoordinatorFixture::Submit(1);
  Place();
  EXPECT_EQ(port(first), 4000);
  EXPECT_EQ(port(second), 4001);
  EXPECT_EQ(port(without), 0);
}

TEST_F(StorePortTest, AJobWithoutAPortWaitsAndLetsOthersPass) {
  Register("node", 4);
  Submit(), Submit();
  const JobId third = Submit(), without = CoordinatorFixture::Submit(1);
  EXPECT_THAT(TextsOf(Place(), third),
              ElementsAre("no store port is left: each of 4000 to 4001 is a job's, or rests 10s "
                          "after one; give the coordinator more with --store-ports"));
  EXPECT_EQ(state(without), "starting");
}

TEST_F(StorePortTest, APortThatAnotherProgramHasTakenIsPassedOverAndLookedAtAgain) {
  std::set<int> taken = {4000};
  ports_.usable = [&taken](JobId, int port) { return !taken.contains(port); };
  Register("node", 2);
  const JobId first = Submit();
  Place();
  EXPECT_EQ(port(first), 4001);
  const JobId second = Submit();
  const Placement none = Place();
  EXPECT_THAT(TextsOf(none, second).at(0), testing::HasSubstr("taken by another program"));
  EXPECT_EQ(none.again_at, now_ + absl::Seconds(1));
  taken.clear();
  Place();
  EXPECT_EQ(port(second), 4000);
}

TEST_F(StorePortTest, APortRestsAfterItsJob) {
  Register("node", 3);
  const JobId first = Submit(), second = Submit(), third = Submit();
  Place();
  End(first);
  const absl::Time rested = now_ + ports_.rest_min;
  EXPECT_EQ(Place().again_at, rested);
  EXPECT_EQ(state(third), "pending");
  now_ = rested;
  Place();
  EXPECT_EQ(port(third), 4000);
  EXPECT_EQ(port(second), 4001);
}

TEST_F(StorePortTest, APortThatRestsIsTakenWhereNoneHasRestedThatWhichHasLongest) {
  Register("node", 3);
  ports_.last = 4002;
  const JobId first = Submit(), second = Submit();
  Place();
  End(second);
  now_ += absl::Minutes(1);
  End(first);
  now_ += absl::Minutes(1);
  const JobId third = Submit(), fourth = Submit(), fifth = Submit();
  Place();
  EXPECT_EQ(port(third), 4002);
  EXPECT_EQ(port(fourth), 4001);
  EXPECT_EQ(port(fifth), 4000);
}

TEST_F(StorePortTest, APortIsHeldUntilTheLastRankIsGone) {
  Register("node", 2);
  const JobId job = Submit();
  Place();
  Apply(CancelJob{job});
  EXPECT_EQ(port(job), 4000);
  Release(job, 0);
  EXPECT_EQ(port(job), 0);
}

TEST_F(StorePortTest, APlacementWithAnotherJobsPortIsRefused) {
  Register("node", 2);
  const JobId first = Submit();
  Place();
  const JobId second = Submit();
  PlaceJob place = PlanPlacement(coordinator_, {.ports = ports_}, now_).place.at(0);
  place.store_port = port(first);
  EXPECT_EQ(Apply(place).status.code(), absl::StatusCode::kAborted);
  place.store_port = 0;
  EXPECT_EQ(Apply(place).status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(state(second), "pending");
}

}  // namespace
}  // namespace dp::core

#include "server/core/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class WorldTest : public CoordinatorFixture {
 protected:
  const Job& job(JobId id) const { return *coordinator_.job(id); }
  static Topic Members(JobId job) { return {Topic::Kind::kWorld, job.value()}; }
  static Topic State(JobId job) { return {Topic::Kind::kWorldState, job.value()}; }
};

TEST_F(WorldTest, AJoinChangesTheMembersAndTheLastOneTheState) {
  Register("node", 3);
  const JobId id = Submit(3);
  const Placement plan = PlanPlacement(coordinator_, policy_, now_);
  EXPECT_THAT(Apply(plan.place.at(0)).changed, AllOf(Contains(Members(id)), Contains(State(id))));
  for (const int rank : {2, 0}) {
    EXPECT_THAT(Join(id, rank).changed, AllOf(Contains(Members(id)), Not(Contains(State(id)))));
  }
  EXPECT_THAT(Join(id, 1).changed, AllOf(Contains(Members(id)), Contains(State(id))));
}

TEST_F(WorldTest, AHandoverAndTheEndChangeTheState) {
  Register("node", 1);
  const JobId id = SubmitAndRun(1);
  EXPECT_THAT(Apply(AskHandover{id, "node is drained"}).changed, Contains(State(id)));
  EXPECT_THAT(Apply(CancelJob{id}).changed, Contains(State(id)));
}

TEST_F(WorldTest, TheStateHasNoVersionOfItsOwn) {
  Register("node", 1);
  const JobId id = SubmitAndRun(1);
  EXPECT_FALSE(coordinator_.version(State(id)).valid());
  EXPECT_FALSE(coordinator_.state().versions.contains(State(id)));
}

TEST_F(WorldTest, AFormingWorldConcernsNoRankOfItsGeneration) {
  Register("node", 2);
  const JobId id = SubmitAndPlace(2);
  Join(id, 0);
  EXPECT_FALSE(ConcernsItsRanks(job(id), Generation(1)));
  EXPECT_TRUE(ConcernsItsRanks(job(id), Generation(9)));
  Join(id, 1);
  EXPECT_TRUE(ConcernsItsRanks(job(id), Generation(1)));
  Apply(CancelJob{id});
  EXPECT_TRUE(ConcernsItsRanks(job(id), Generation(1)));
}

TEST_F(WorldTest, TheMemberTableIsLeftOutOnRequest) {
  Register("node", 2);
  const JobId id = SubmitAndPlace(2);
  Join(id, 1);
  EXPECT_THAT(coordinator_.world(id)->members, SizeIs(1));
  const World world = *coordinator_.world(id, MemberTable::kNone);
  EXPECT_THAT(world.members, IsEmpty());
  EXPECT_EQ(world.reason, "1 of 2 ranks have joined; missing: rank 0 on node (assigned)");
  EXPECT_EQ(world.version, coordinator_.world(id)->version);
}

TEST_F(WorldTest, APlaceIsKnownBeforeItsRankJoins) {
  Register("node1", 1), Register("node2", 1);
  const JobId id = SubmitAndPlace(2);
  EXPECT_EQ(MemberOf(job(id), 1).address, "node2.test");
}

}  // namespace
}  // namespace dp::core

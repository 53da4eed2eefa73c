#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/policy/testing/coordinator_fixture.h"

// Jobs whose ranks join no world: the world is sealed once all their processes run.

namespace dp::core {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

class CommandJobsTest : public CoordinatorFixture {
 protected:
  static Topic WorldOf(JobId job) { return {Topic::Kind::kWorld, job.value()}; }
};

TEST_F(CommandJobsTest, ACommandRunsOnceEveryRankHasStarted) {
  Register("node", 2);
  const JobId job = SubmitCommandAndPlace(2);
  Started(job, 1);
  EXPECT_EQ(state(job), "starting");
  EXPECT_THAT(Started(job, 0).changed, Contains(WorldOf(job)));
  EXPECT_EQ(state(job), "running");
  EXPECT_EQ(rank_state(job, 0), "started");
  EXPECT_FALSE(Started(job, 0).journal);
}

TEST_F(CommandJobsTest, ACommandThatIsOverBeforeItsStartWasReportedHasRun) {
  Register("node", 2);
  const JobId job = SubmitCommandAndPlace(2);
  ExitWith(job, 0, 0), Release(job, 0);
  EXPECT_EQ(state(job), "starting");
  ExitWith(job, 1, 0);
  EXPECT_EQ(state(job), "running");
  Release(job, 1);
  EXPECT_EQ(state(job), "succeeded");
}

TEST_F(CommandJobsTest, ACommandThatFailsBeforeAllHaveStartedFailsItsJob) {
  Register("node", 2);
  const JobId job = SubmitCommandAndPlace(2);
  Started(job, 0), ExitWith(job, 0, 3);
  EXPECT_EQ(state(job), "stopping");
  Started(job, 1);
  EXPECT_EQ(state(job), "stopping");
  ExitWith(job, 1, 0), Release(job, 0), Release(job, 1);
  EXPECT_EQ(state(job), "failed");
  EXPECT_EQ(failure(job).rank, 0);
}

TEST_F(CommandJobsTest, ACommandsRanksAreToldWhereAllAreAndTheirPorts) {
  Apply(RegisterWorker{"a", "a", "10.0.0.1", Incarnation(1), 2, {4001, 4002}});
  Apply(RegisterWorker{"b", "b", "10.0.0.2", Incarnation(2), 1, {5001}});
  const JobId job = SubmitCommandAndPlace(3);
  const auto assignment = coordinator_.assignment(WorkerId(2), Incarnation(2));
  const std::vector<HostRanks>& hosts = assignment->ranks.at(0).hosts;
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[0].address, "10.0.0.1");
  EXPECT_THAT(hosts[0].ports, ElementsAre(4001, 4002));
  EXPECT_THAT(hosts[1].slots, ElementsAre(0));
  EXPECT_EQ(coordinator_.job(job)->ranks[2].port, 5001);
}

TEST_F(CommandJobsTest, ARankIsAssignedWithTheOwnerOfItsJob) {
  const WorkerId node = Register("node", 1);
  Apply(SubmitJob{"request", {"job", 1, ""}, "ann", "ann"});
  PlaceAll();
  EXPECT_EQ(coordinator_.assignment(node, life(node))->ranks.at(0).owner, "ann");
}

TEST_F(CommandJobsTest, RanksThatJoinAWorldAreToldByTheWorld) {
  const WorkerId node = Register("node", 1);
  SubmitAndPlace(1);
  EXPECT_THAT(coordinator_.assignment(node, life(node))->ranks.at(0).hosts, IsEmpty());
}

}  // namespace
}  // namespace dp::core

#include "server/core/invariants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

// Each test corrupts a copy of a sound state in one place.
class InvariantsTest : public CoordinatorFixture {
 protected:
  void SetUp() override {
    node_ = Register("node", 2);
    job_ = SubmitAndRun(2);
  }
  State Sound() const { return coordinator_.state(); }
  std::vector<std::string> Broken(const State& state) { return Invariants().Broken(state); }
  std::vector<std::string> BrokenBy(const State& before, const State& after) {
    Invariants invariants;
    EXPECT_THAT(invariants.Broken(before), IsEmpty());
    return invariants.Broken(after);
  }

  WorkerId node_;
  JobId job_;
};

TEST_F(InvariantsTest, ASoundStateBreaksNone) { EXPECT_THAT(Broken(Sound()), IsEmpty()); }

TEST_F(InvariantsTest, ALiveRankWithoutItsSlotIsFound) {
  State state = Sound();
  state.workers.Vacate(node_, 0, Key(job_, 0));
  EXPECT_THAT(Broken(state), Contains(HasSubstr("a live rank does not hold its slot")));
}

TEST_F(InvariantsTest, ASlotHeldByARankThatIsOverIsFound) {
  State state = Sound();
  state.jobs.Find(job_)->ranks[1].state = RankState::kReleased;
  EXPECT_THAT(Broken(state), Contains("worker node: a slot is held by a rank that is over"));
}

TEST_F(InvariantsTest, ARunningJobWithoutASealedWorldIsFound) {
  State state = Sound();
  state.jobs.Find(job_)->world = Rendezvous(2);
  EXPECT_THAT(Broken(state), Contains("job 1 (running): its world is not sealed"));
}

TEST_F(InvariantsTest, AnEndWithARankAliveIsFound) {
  State state = Sound();
  state.jobs.Find(job_)->state = JobState::kSucceeded;
  EXPECT_THAT(Broken(state), Contains(HasSubstr("is over, but a rank holds a slot")));
}

TEST_F(InvariantsTest, AStoreThatOutlivesItsGenerationIsFound) {
  State state = Sound();
  state.stores.try_emplace(JobId(77));
  EXPECT_THAT(Broken(state), Contains("store of job 77: belongs to no job"));
}

TEST_F(InvariantsTest, ATerminalJobThatMovesIsFound) {
  Apply(CancelJob{job_});
  for (int rank = 0; rank < 2; ++rank) Release(job_, rank);
  State after = Sound();
  after.revision = Revision(after.revision.value() + 1);
  after.jobs.Find(job_)->version = after.revision;
  EXPECT_THAT(BrokenBy(Sound(), after), Contains("job 1 (cancelled): moved after its end"));
}

TEST_F(InvariantsTest, ARevisionThatGoesBackIsFound) {
  const State after = Sound();
  Apply(CancelJob{job_});
  EXPECT_THAT(BrokenBy(Sound(), after), Contains("coordinator: the revision went back"));
}

TEST_F(InvariantsTest, ARankThatGoesBackIsFound) {
  State after = Sound();
  after.jobs.Find(job_)->ranks[0].state = RankState::kStarted;
  EXPECT_THAT(BrokenBy(Sound(), after), Contains(HasSubstr("the state of a rank went back")));
}

}  // namespace
}  // namespace dp::core

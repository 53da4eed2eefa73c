#include "server/policy/leases.h"

#include "gtest/gtest.h"
#include "server/policy/liveness.h"
#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

class LeasesTest : public CoordinatorFixture {
 protected:
  LeasesTest() {
    for (const WorkerId worker : {a_, b_}) liveness_.Welcome(worker, life(worker), now_);
  }

  JobId Run(int ranks, absl::Duration detect_within) {
    JobSpec spec{.name = "job", .ranks = ranks};
    spec.detect_within = detect_within;
    const JobId job = SubmitSpec(spec);
    PlaceAll();
    OfferLeases(coordinator_, liveness_, now_);
    return job;
  }
  absl::Duration offered(WorkerId worker) const { return liveness_.offer(worker).term; }

  const WorkerId a_ = Register("a", 2), b_ = Register("b", 2);
  Liveness liveness_{absl::Seconds(5)};
};

TEST_F(LeasesTest, AJobMakesTheLeaseOfItsWorkersShorterAndNoOthers) {
  const JobId job = Run(2, absl::Seconds(4));
  ASSERT_EQ(places(job), "a/0 a/1");
  EXPECT_EQ(offered(a_), absl::Seconds(3.2));
  EXPECT_EQ(offered(b_), absl::Seconds(5));
}

TEST_F(LeasesTest, OfTheJobsOfAWorkerTheOneInTheGreatestHurryDecides) {
  Run(1, absl::Seconds(5)), Run(1, absl::Seconds(3)), Run(1, absl::InfiniteDuration());
  EXPECT_EQ(offered(a_), absl::Seconds(2.4));
}

TEST_F(LeasesTest, AJobThatIsOverAsksForNothing) {
  const JobId job = Run(1, absl::Seconds(3));
  ExitWith(job, 0, 1), Release(job, 0);
  OfferLeases(coordinator_, liveness_, now_);
  EXPECT_EQ(offered(a_), absl::Seconds(5));
}

TEST_F(LeasesTest, NobodyAsksForALongerOne) {
  Run(1, absl::Hours(1));
  EXPECT_EQ(offered(a_), absl::Seconds(5));
}

// Hosts come under new names, and go.
TEST_F(LeasesTest, WhoIsNoLongerListedIsNotKnownAnyMore) {
  for (size_t i = 0; i < WorkerTable::kLostMax + 100; ++i) {
    const WorkerId gone = Register(absl::StrCat("spot-", i), 1);
    liveness_.Welcome(gone, life(gone), now_);
    Lose(gone), liveness_.Forget(gone);
    OfferLeases(coordinator_, liveness_, now_);
  }
  EXPECT_EQ(liveness_.known(), coordinator_.workers().size());
  EXPECT_EQ(liveness_.known(), WorkerTable::kLostMax + 2);
  EXPECT_TRUE(liveness_.silent_for(a_, now_).has_value());
}

}  // namespace
}  // namespace dp::core

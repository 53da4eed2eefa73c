#include "worker/agent/agent.h"

#include <unistd.h>

#include "worker/agent/testing/agent_fixture.h"

namespace dp::worker {
namespace {

using testing::Contains;
using testing::HasSubstr;

class RankAccountTest : public AgentFixture {
 protected:
  RankAccountTest() {
    run_as_ = {.kind = RunAs::Kind::kOwner, .allow_root = true};  // ann is whoever runs the tests
    rank_.set_owner("ann");
  }
  void Assign() {
    Run();
    EXPECT_EQ(coordinator_.NextHeard(), "register a");
    coordinator_.Assign({rank_});
  }
  std::string NextAsked() {
    const auto asked = accounts_asked_.DrainFor(absl::Seconds(20));
    return asked.empty() ? "timeout" : asked.front();
  }

  v1::AssignedRank rank_ = ARank(0);
  // Every user may give files to themselves.
  const Account ann_{.name = "ann", .uid = geteuid(), .gid = getegid(), .home = "/home/ann"};
};

TEST_F(RankAccountTest, ARankStartsAsItsOwnerOnceTheAccountIsFound) {
  Assign();
  EXPECT_EQ(NextAsked(), "ann");
  mailbox_.Tell(AccountFound{"ann", ann_});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  EXPECT_EQ(runner_.command().run_as, ann_);
  EXPECT_THAT(runner_.command().environment, Contains("HOME=/home/ann"));
}

TEST_F(RankAccountTest, ARankWithoutAnAccountIsNeverStarted) {
  Assign();
  EXPECT_EQ(NextAsked(), "ann");
  mailbox_.Tell(AccountFound{"ann", absl::NotFoundError("none")});
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("rank 0 exited error: job 1 belongs to ann"));
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
}

TEST_F(RankAccountTest, ARankThatIsStoppedDuringTheLookUpIsDeclined) {
  Assign();
  EXPECT_EQ(NextAsked(), "ann");
  rank_.set_stop(true);
  coordinator_.Assign({rank_});
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("rank 0 exited error: "));
  mailbox_.Tell(AccountFound{"ann", ann_});
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
}

// As after a coordinator was set up anew.
TEST_F(RankAccountTest, ARankThatTakesThePlaceOfAnotherJobsWaitsForItsOwnAccount) {
  rank_.mutable_submitted_at()->set_seconds(100);
  Assign();
  EXPECT_EQ(NextAsked(), "ann");
  mailbox_.Tell(AccountFound{"ann", ann_});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  runner_.Tell(0, ProcessStarted{100});
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 started");
  rank_.set_owner("bob");
  rank_.mutable_submitted_at()->set_seconds(200);
  coordinator_.Assign({rank_});
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_EQ(NextAsked(), "bob");
  mailbox_.Tell(AccountFound{"bob", ann_});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
}

TEST_F(RankAccountTest, AnotherJobOfTheSameNumberAndOwnerIsLookedUpAnew) {
  rank_.mutable_submitted_at()->set_seconds(100);
  Assign();
  EXPECT_EQ(NextAsked(), "ann");
  mailbox_.Tell(AccountFound{"ann", ann_});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  runner_.Tell(0, ProcessStarted{100});
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 started");
  rank_.mutable_submitted_at()->set_seconds(200);
  coordinator_.Assign({rank_});
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_EQ(NextAsked(), "ann");
}

TEST_F(RankAccountTest, ADaemonThatShutsDownDoesNotWaitForALookUp) {
  Assign();
  EXPECT_EQ(NextAsked(), "ann");
  mailbox_.Tell(ShutdownWanted{});
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited error: the worker is shutting down");
  EXPECT_TRUE(AwaitEnd().ok());
}

}  // namespace
}  // namespace dp::worker

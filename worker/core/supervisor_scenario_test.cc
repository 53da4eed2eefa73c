#include <string>

#include "absl/strings/str_cat.h"
#include "base/overloaded.h"
#include "gtest/gtest.h"
#include "worker/core/supervisor.h"

// Whole runs of ranks, as a daemon sees them: facts arrive, Reconcile decides, and its actions are
// carried out and recorded.

namespace dp::worker {
namespace {

std::string Name(const RankKey& key) { return absl::StrCat("rank ", key.rank); }

std::string Name(Milestone milestone) {
  switch (milestone) {
    case Milestone::kNone:
      return "nothing";
    case Milestone::kStarted:
      return "started";
    case Milestone::kExited:
      return "exited";
    case Milestone::kReleased:
      return "released";
  }
  return "?";
}

class SupervisorScenario : public testing::Test {
 protected:
  static RankKey Key(int rank) { return {JobId(1), Generation(1), rank}; }

  void Assign(int rank, bool stop = false) {
    desired_.ranks[Key(rank)] = {.key = Key(rank), .stop = stop, .grace = absl::Seconds(10)};
  }
  void Started(int rank) { observed_.Started(Key(rank), 100 + rank); }
  void Exited(int rank) { observed_.Exited(Key(rank), {}, {}); }
  void Gone(int rank) { observed_.Gone(Key(rank), now_); }
  void Acknowledge(int rank, Milestone milestone) { observed_.Acknowledged(Key(rank), milestone); }

  // Carries out and records the decided actions. Returns them in words.
  std::string Act() {
    std::string done;
    for (const Action& action : Reconcile(desired_, observed_, now_).actions) {
      absl::StrAppend(&done, done.empty() ? "" : ", ", Do(action));
    }
    return done;
  }

  std::string Do(const Action& action) {
    return std::visit(Overloaded{
                          [this](const Start& start) {
                            observed_.AskedToStart(start.rank);
                            return absl::StrCat("start ", Name(start.rank.key));
                          },
                          [this](const Decline& decline) {
                            observed_.Declined(decline.rank, decline.reason, now_);
                            return absl::StrCat("decline ", Name(decline.rank.key));
                          },
                          [this](const Terminate& terminate) {
                            observed_.Terminated(terminate.key, now_);
                            return absl::StrCat("terminate ", Name(terminate.key));
                          },
                          [this](const Kill& kill) {
                            observed_.Killed(kill.key);
                            return absl::StrCat("kill ", Name(kill.key));
                          },
                          [this](const Forget& forget) {
                            observed_.Forgotten(forget.key);
                            return absl::StrCat("forget ", Name(forget.key));
                          },
                          [](const Report& report) {
                            return absl::StrCat(Name(report.key), " ", Name(report.milestone));
                          },
                      },
                      action);
  }

  Desired desired_;
  Observed observed_;
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(SupervisorScenario, ARankRunsToItsEnd) {
  observed_.Reachable(now_);
  Assign(0);
  EXPECT_EQ(Act(), "start rank 0");
  Started(0);
  EXPECT_EQ(Act(), "rank 0 started");
  Acknowledge(0, Milestone::kStarted);
  EXPECT_EQ(Act(), "");
  Exited(0);
  EXPECT_EQ(Act(), "rank 0 exited");
  Acknowledge(0, Milestone::kExited);
  Gone(0);
  EXPECT_EQ(Act(), "");
  observed_.LogsShipped(Key(0));
  EXPECT_EQ(Act(), "rank 0 released");
  Acknowledge(0, Milestone::kReleased);
  EXPECT_EQ(Act(), "");
  desired_.ranks.clear();
  EXPECT_EQ(Act(), "forget rank 0");
  EXPECT_EQ(Act(), "");
}

TEST_F(SupervisorScenario, AStubbornRankIsCancelled) {
  observed_.Reachable(now_);
  Assign(0);
  Act();
  Assign(0, /*stop=*/true);
  EXPECT_EQ(Act(), "terminate rank 0");
  EXPECT_EQ(Act(), "");
  now_ += absl::Seconds(10);
  EXPECT_EQ(Act(), "kill rank 0");
  EXPECT_EQ(Act(), "");
  Exited(0);
  Gone(0);
  EXPECT_EQ(Act(), "rank 0 exited");
}

TEST_F(SupervisorScenario, ReportsWaitInTheirOrderForTheCoordinatorToComeBack) {
  Assign(0);
  Assign(1);
  EXPECT_EQ(Act(), "start rank 0, start rank 1");
  Started(1);
  Started(0);
  Exited(1);
  EXPECT_EQ(Act(), "rank 0 started, rank 1 exited");
  EXPECT_EQ(Act(), "rank 0 started, rank 1 exited");  // still not acknowledged
  Acknowledge(0, Milestone::kStarted);
  EXPECT_EQ(Act(), "rank 1 exited");
}

TEST_F(SupervisorScenario, AWorkerWhoseLeaseIsLostStartsOverWithNothing) {
  Assign(0);
  Act();
  Started(0);
  desired_.mode = Mode::kAbandon;
  EXPECT_EQ(Act(), "kill rank 0");
  EXPECT_EQ(Act(), "");
  Exited(0);
  Gone(0);
  EXPECT_EQ(Act(), "forget rank 0");
  EXPECT_TRUE(Reconcile(desired_, observed_, now_).finished);
}

TEST_F(SupervisorScenario, AWorkerShutsDownWithGrace) {
  observed_.Reachable(now_);
  Assign(0);
  Act();
  desired_.mode = Mode::kStop;
  EXPECT_EQ(Act(), "terminate rank 0");
  Exited(0);
  Gone(0);
  observed_.LogsShipped(Key(0));
  EXPECT_EQ(Act(), "rank 0 exited");
  Acknowledge(0, Milestone::kExited);
  EXPECT_EQ(Act(), "rank 0 released");
  EXPECT_FALSE(Reconcile(desired_, observed_, now_).finished);
  Acknowledge(0, Milestone::kReleased);
  EXPECT_TRUE(Reconcile(desired_, observed_, now_).finished);
}

}  // namespace
}  // namespace dp::worker

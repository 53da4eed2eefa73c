#include <thread>

#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/agent.h"
#include "worker/agent/processes/guarded_runner.h"
#include "worker/agent/testing/fake_coordinator.h"
#include "worker/agent/testing/fifo.h"

// The whole daemon with real guards and rank processes; only the coordinator is fake.

namespace dp::worker {
namespace {

class DaemonTest : public testing::Test {
 protected:
  ~DaemonTest() override {
    mailbox_.Tell(ShutdownWanted{});
    mailbox_.Tell(ShutdownWanted{});
    running_.join();
    coordinator_.CancelAll();
  }

  // Awaits the registration, then assigns rank 0.
  void RunRank(const std::string& mode, const std::string& argument) {
    rank_.mutable_spec()->mutable_grace()->set_nanos(1'000'000);
    (*rank_.mutable_spec()->mutable_env())["STUB_MODE"] = mode;
    (*rank_.mutable_spec()->mutable_env())["STUB_ARGUMENT"] = argument;
    EXPECT_EQ(coordinator_.NextHeard(), "register a");
    coordinator_.Assign({rank_});
  }
  void StopRank() {
    rank_.set_stop(true);
    coordinator_.Assign({rank_});
  }

  AgentOptions Options() const {
    return {.host_name = "host",
            .state_dir = directory_.path(),
            .rank_host = {.coordinator = "c:1", .trainer = DP_RANK_STUB},
            .address = [] { return std::string("10.0.0.9"); },
            .seed = 42};
  }

  TemporaryDirectory directory_;
  Fifo fifo_{directory_.path() + "/fifo"};
  v1::AssignedRank rank_;
  FakeCoordinator coordinator_;
  Mailbox mailbox_;
  GuardedRunner runner_{DP_GUARD, [this](ProcessNews news) { mailbox_.Tell(std::move(news)); }};
  Agent agent_{Options(), coordinator_.connection(), runner_, mailbox_, Clock::System()};
  std::jthread running_{[this] { (void)agent_.Run(); }};  // the destructor asks for its end: OK
};

TEST_F(DaemonTest, ACancelledRankThatIgnoresSigtermIsKilledWithAllItsDescendants) {
  RunRank("stubborn", fifo_.path());
  EXPECT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 started");
  StopRank();
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited signal 9");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  EXPECT_EQ(fifo_.Read(), "");
}

TEST_F(DaemonTest, ALostLeaseEndsTheWholeTree) {
  RunRank("stubborn", fifo_.path());
  EXPECT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 started");
  coordinator_.LoseWorker();
  EXPECT_EQ(coordinator_.NextHeard(), "register b");
  EXPECT_EQ(fifo_.Read(), "");
}

TEST_F(DaemonTest, ARankThatWritesAHundredMegabytesWithoutANewlineIsReleasedWithAllOfThem) {
  RunRank("write", "100000000");
  std::string heard;
  while (heard != "rank 0 released" && heard != "timeout") heard = coordinator_.NextHeard();
  EXPECT_EQ(heard, "rank 0 released");
  EXPECT_EQ(coordinator_.AwaitLogSize(v1::LOG_STREAM_STDOUT, 100'000'000), 100'000'000u);
}

}  // namespace
}  // namespace dp::worker

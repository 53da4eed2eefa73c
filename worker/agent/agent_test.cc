#include "worker/agent/agent.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/mutex.h"
#include "base/testing/notify_listener.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fake_coordinator.h"
#include "worker/agent/testing/fake_runner.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;

// The driver of a host whose slot 0 has the GPU "a".
class FakeMemory final : public DeviceMemorySource {
 public:
  void Set(absl::StatusOr<int64_t> mib) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    mib_ = std::move(mib);
  }
  // Waits until it has been asked so many times more; false when patience ends.
  bool AwaitQuestions(int questions) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const int goal = asked_ + questions;
    return changed_.WaitFor(mu_, absl::Seconds(20),
                            [this, goal]() DP_REQUIRES(mu_) { return asked_ >= goal; });
  }

  absl::StatusOr<int64_t> BytesInUse(const std::string&) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++asked_;
    changed_.NotifyAll();
    if (!mib_.ok()) return mib_.status();
    return *mib_ << 20;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  absl::StatusOr<int64_t> mib_ DP_GUARDED_BY(mu_) = 0;
  int asked_ DP_GUARDED_BY(mu_) = 0;
};

// What the GPU "a" looks like.
class FakeGpus final : public GpuReader {
 public:
  void Set(const GpuReading& gpu) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    gpu_ = gpu;
    gpu_.name = "a";
  }
  std::vector<GpuReading> Read(const std::vector<std::string>&) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return {gpu_};
  }

 private:
  Mutex mu_;
  GpuReading gpu_ DP_GUARDED_BY(mu_) = {.name = "a"};
};

v1::AssignedRank ARank(int rank, bool stop = false) {
  v1::AssignedRank assigned;
  assigned.set_rank(rank);
  assigned.set_slot(rank);
  assigned.set_stop(stop);
  assigned.mutable_spec()->mutable_grace()->set_nanos(1'000'000);
  return assigned;
}

// A daemon whose coordinator and processes the test plays.
class AgentTest : public testing::Test {
 protected:
  ~AgentTest() override {
    if (!running_.joinable()) return;
    events_.Tell(ShutdownWanted{});
    events_.Tell(ShutdownWanted{});
    (void)AwaitEnd();  // the tests that care have asked already
  }

  void Run(const std::string& name = "") {
    AgentOptions options{.name = name,
                         .host_name = "host",
                         .slots = 2,
                         .state_dir = directory_.path(),
                         .left_overs_max = left_overs_max_,
                         .rank_host = {.coordinator = "c:1", .trainer = "/trainer"},
                         .address = [] { return std::string("10.0.0.9"); },
                         .notify = &notify_,
                         .coordinator_probe = probe_,
                         .slot_devices = {{{"a", "GPU 0 (a)"}}, {}},
                         .device_memory = memory_,
                         .device_limits = device_limits_,
                         .gpus = gpus_,
                         .gpus_read_every = absl::Milliseconds(1),
                         .seed = 42};
    agent_.emplace(std::move(options), coordinator_, coordinator_, runner_, events_,
                   Clock::System());
    running_ = std::jthread([this] { result_ = agent_->Run(); });
  }

  void RunRankZero() {
    Run();
    EXPECT_EQ(coordinator_.NextHeard(), "register a");
    coordinator_.Assign({ARank(0)});
    EXPECT_EQ(runner_.NextOrder(), "start 0");
    runner_.Tell(0, ProcessStarted{100});
    EXPECT_EQ(coordinator_.NextHeard(), "rank 0 started");
  }

  void End(int rank, int code) {
    runner_.Tell(rank, ProcessExited{{Exit::How::kCode, code}});
    runner_.Tell(rank, ProcessGone{});
  }

  void AwaitRemovedSpool() {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (std::filesystem::exists(spool_.path(v1::LOG_STREAM_STDOUT))) {
      ASSERT_LT(absl::Now(), deadline);
      std::this_thread::yield();
    }
  }

  absl::Status AwaitEnd() {
    running_.join();
    coordinator_.CancelAll();
    agent_.reset();
    return result_;
  }

  TemporaryDirectory directory_;
  NotifyListener manager_;
  NotifySocket notify_{manager_.name(), absl::Minutes(1)};
  const LogSpool spool_{directory_.path(), {JobId(1), Generation(1), 0}};
  Events events_;
  FakeCoordinator coordinator_;
  FakeRunner runner_{events_};
  FakeMemory gpu_;
  DeviceMemorySource* memory_ = nullptr;
  FakeGpus readings_;
  GpuReader* gpus_ = nullptr;
  ListenerProbe* probe_ = nullptr;
  size_t left_overs_max_ = kLeftOversMax;
  SlotDevices::Limits device_limits_{.patience = absl::Hours(1),
                                     .ask_every = absl::Milliseconds(1),
                                     .ask_unfit_every = absl::Milliseconds(1)};
  std::optional<Agent> agent_;
  absl::Status result_;
  std::jthread running_;
};

TEST_F(AgentTest, ARankRunsToItsEnd) {
  RunRankZero();
  std::ofstream(spool_.path(v1::LOG_STREAM_STDERR)) << "no data\n";
  End(0, 3);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 3: no data");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDERR, "no data\n"), "no data\n");
}

TEST_F(AgentTest, TheServiceManagerHearsOfLifeTheRegistrationAndTheEnd) {
  RunRankZero();
  events_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  EXPECT_EQ(manager_.Await(), "STATUS=registered as host");
  EXPECT_EQ(manager_.Await(), "WATCHDOG=1");
  EXPECT_EQ(manager_.Await(), "STOPPING=1");
}

TEST_F(AgentTest, RanksAreToldTheNameAndAddressThatWereRegistered) {
  RunRankZero();
  EXPECT_THAT(runner_.command().environment, Contains("DP_WORKER=host"));
  EXPECT_THAT(runner_.command().environment, Contains("DP_ADDRESS=10.0.0.9"));
}

TEST_F(AgentTest, ARankThatCannotBeStartedIsReportedWithTheReason) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({ARank(0)});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  runner_.Tell(0, ProcessNotStarted{"no such program"});
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited error: no such program");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
}

TEST_F(AgentTest, ASpoolThatCannotBeMadeIsAStartThatFailed) {
  std::ofstream(directory_.path() + "/spool") << "in the way";
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({ARank(0)});
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("rank 0 exited error: spool "));
}

TEST_F(AgentTest, AStoppedRankIsTerminatedAndThenKilled) {
  RunRankZero();
  coordinator_.Assign({ARank(0, /*stop=*/true)});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited signal 9");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
}

TEST_F(AgentTest, ARankThatIsNoLongerAssignedIsKilledAndItsSpoolRemoved) {
  RunRankZero();
  coordinator_.Assign({});
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  AwaitRemovedSpool();
}

TEST_F(AgentTest, WhatARankWroteThatIsNoLongerAssignedIsSentAllTheSame) {
  RunRankZero();
  coordinator_.RefuseLogs(absl::ResourceExhaustedError("no room"));
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT)) << "line\n";
  coordinator_.AwaitRefusals(1);
  coordinator_.Assign({});
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  coordinator_.AwaitRefusals(2);
  coordinator_.RefuseLogs(absl::OkStatus());
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "line\n"), "line\n");
  AwaitRemovedSpool();
}

TEST_F(AgentTest, WhatAnEarlierLifeLeftIsSentAndThenRemoved) {
  ASSERT_TRUE(spool_.Create(absl::FromUnixSeconds(100)).ok());
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT)) << "line\nend";
  Run();
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "line\nend"), "line\nend");
  EXPECT_EQ(coordinator_.submitted_at(), absl::FromUnixSeconds(100));
  AwaitRemovedSpool();
}

TEST_F(AgentTest, ARankTakesThePlaceOfOneOfTheSameNameThatAnEarlierLifeLeft) {
  coordinator_.RefuseLogs(absl::ResourceExhaustedError("no room"));
  ASSERT_TRUE(spool_.Create(absl::FromUnixSeconds(100)).ok());
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT)) << "of another job\n";
  RunRankZero();
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT), std::ios::app) << "mine\n";
  coordinator_.RefuseLogs(absl::OkStatus());
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "mine\n"), "mine\n");
}

TEST_F(AgentTest, ASlotIsReleasedWhenTheMemoryOfItsGpuIsFreeNotWhenItsProcessesAreGone) {
  memory_ = &gpu_;
  RunRankZero();
  gpu_.Set(1200);
  End(0, 0);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0");
  ASSERT_TRUE(gpu_.AwaitQuestions(3));
  coordinator_.Assign({ARank(0), ARank(1)});
  EXPECT_EQ(runner_.NextOrder(), "start 1");
  runner_.Tell(1, ProcessStarted{101});
  EXPECT_EQ(coordinator_.NextHeard(), "rank 1 started");
  gpu_.Set(3);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
}

TEST_F(AgentTest, ALeaseThatIsOfferedIsNamedByTheHeartbeatsThatFollow) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_TRUE(coordinator_.AwaitLease(0));
  coordinator_.OfferLease(absl::Milliseconds(120), 7);
  EXPECT_TRUE(coordinator_.AwaitLease(7));
  coordinator_.OfferLease(absl::Milliseconds(80), 8);
  EXPECT_TRUE(coordinator_.AwaitLease(8));
  coordinator_.Restart();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_TRUE(coordinator_.AwaitLease(8));
}

TEST_F(AgentTest, ASlotWhoseGpuIsNotLetGoIsReportedBeforeItIsReleasedAndAgainWhenItIsFree) {
  memory_ = &gpu_;
  device_limits_.patience = absl::Milliseconds(50);
  RunRankZero();
  gpu_.Set(1200);
  End(0, 0);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0");
  EXPECT_EQ(coordinator_.NextHeard(),
            "slots 1, 0: GPU 0 (a) still holds 1200 MiB after its processes ended");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  gpu_.Set(0);
  EXPECT_EQ(coordinator_.NextHeard(), "slots 2");
}

TEST_F(AgentTest, ARankIsStartedOnceTheGpuOfItsSlotIsFree) {
  memory_ = &gpu_;
  gpu_.Set(1200);
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  ASSERT_TRUE(gpu_.AwaitQuestions(1));
  coordinator_.Assign({ARank(0), ARank(1)});
  EXPECT_EQ(runner_.NextOrder(), "start 1");
  gpu_.Set(0);
  EXPECT_EQ(runner_.NextOrder(), "start 0");
}

TEST_F(AgentTest, ANewIncarnationTellsOfItsUnhealthySlotsAnew) {
  memory_ = &gpu_;
  device_limits_.patience = absl::ZeroDuration();
  gpu_.Set(absl::UnavailableError("GPU is lost"));
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("slots 1, 0: GPU 0 (a)"));
  coordinator_.LoseWorker(/*successor=*/false);
  EXPECT_EQ(coordinator_.NextHeard(), "register b");
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr(", 0: GPU 0 (a)"));
}

TEST_F(AgentTest, WhatIsReadOfTheGpusIsToldWithHeartbeatsAndToACoordinatorThatWasRestarted) {
  gpus_ = &readings_;
  readings_.Set({.utilisation_percent = 7});
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_TRUE(coordinator_.AwaitGpuUse(7));
  readings_.Set({.utilisation_percent = 8});
  EXPECT_TRUE(coordinator_.AwaitGpuUse(8));
  coordinator_.Restart();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_TRUE(coordinator_.AwaitGpuUse(8));
}

TEST_F(AgentTest, ARankThatTrainsOnAGpuHasItsReadingsAmongItsMetricsWhileItRuns) {
  gpus_ = &readings_;
  readings_.Set({.utilisation_percent = 7});
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  v1::AssignedRank on_gpu = ARank(0);
  on_gpu.set_on_gpu(true);
  coordinator_.Assign({on_gpu});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  runner_.Tell(0, ProcessStarted{100});
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 started");
  EXPECT_GE(coordinator_.AwaitLogSize(v1::LOG_STREAM_METRICS, 1), 1u);
  std::ifstream metrics(spool_.path(v1::LOG_STREAM_METRICS));
  std::string line;
  ASSERT_TRUE(std::getline(metrics, line));
  EXPECT_THAT(line, HasSubstr(R"("rank":0,"gpu":"a","gpu_utilisation_percent":7})"));
  End(0, 0);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");  // all of it has been stored
}

TEST_F(AgentTest, ARankThatLeavesTheGpuOfItsSlotAloneHasNoReadingsOfIt) {
  gpus_ = &readings_;
  RunRankZero();
  for (const int percent : {7, 8, 9}) {
    readings_.Set({.utilisation_percent = percent});
    EXPECT_TRUE(coordinator_.AwaitGpuUse(percent));
  }
  EXPECT_EQ(std::filesystem::file_size(spool_.path(v1::LOG_STREAM_METRICS)), 0u);
}

TEST_F(AgentTest, ASlotWhoseGpuIsNotInOrderIsUnhealthyWhateverRunsThereAndGetsNoRankUntilItIs) {
  gpus_ = &readings_;
  RunRankZero();
  readings_.Set({.uncorrected_errors = 2});
  EXPECT_THAT(coordinator_.NextHeard(),
              HasSubstr("slots 1, 0: GPU 0 (a) has had 2 uncorrected memory errors"));
  End(0, 0);  // it was left in peace
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  readings_.Set({.uncorrected_errors = 0});
  EXPECT_EQ(coordinator_.NextHeard(), "slots 2");
}

TEST_F(AgentTest, ARankForASlotWhoseGpuIsNotInOrderIsDeclinedWithTheReason) {
  gpus_ = &readings_;
  readings_.Set({.xid = 79});
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("0: GPU 0 (a) had Xid 79"));
  coordinator_.Assign({ARank(0)});
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("rank 0 exited"));
}

TEST_F(AgentTest, TheCoordinatorMayBeAwayAtTheStart) {
  coordinator_.SetReachable(false);
  Run();
  coordinator_.SetReachable(true);
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
}

TEST_F(AgentTest, WhatHappensWhileTheCoordinatorIsAwayIsReportedWhenItIsBack) {
  RunRankZero();
  coordinator_.SetReachable(false);
  End(0, 0);
  coordinator_.SetReachable(true);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
}

TEST_F(AgentTest, ARestartedCoordinatorFindsTheSameIncarnationAndItsRanksRunning) {
  RunRankZero();
  coordinator_.Restart();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  End(0, 0);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0");
}

TEST_F(AgentTest, ALostLeaseKillsAllRanksAndBeginsANewIncarnation) {
  RunRankZero();
  coordinator_.LoseWorker(/*successor=*/false);
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_EQ(coordinator_.NextHeard(), "register b");
  coordinator_.Assign({ARank(1)});
  EXPECT_EQ(runner_.NextOrder(), "start 1");
}

TEST_F(AgentTest, ADaemonWhoseNameIsTakenOverKillsItsRanksAndEnds) {
  Run("gpu-a");
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({ARank(0)});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  coordinator_.LoseWorker(/*successor=*/true);
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_THAT(std::string(AwaitEnd().message()), HasSubstr("registered as gpu-a"));
}

TEST_F(AgentTest, ADaemonWhoseNameALiveOneHasEndsWithTheReason) {
  coordinator_.HoldName("gpu-a", /*beats=*/true);
  Run("gpu-a");
  EXPECT_THAT(std::string(AwaitEnd().message()), HasSubstr("gpu-a is taken"));
}

TEST_F(AgentTest, ADaemonWaitsForTheEndOfTheLeaseOfItsLifeBefore) {
  coordinator_.HoldName("gpu-a", /*beats=*/false);
  Run("gpu-a");
  coordinator_.AwaitListings(4);
  coordinator_.HoldName("", /*beats=*/false);
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
}

TEST_F(AgentTest, ARegistrationThatIsRefusedEndsTheDaemonWithTheReason) {
  coordinator_.RefuseRegistrations(absl::InvalidArgumentError("bad name"));
  Run();
  EXPECT_THAT(std::string(AwaitEnd().message()), HasSubstr("bad name"));
}

TEST_F(AgentTest, AShutdownStopsRanksAndReportsThem) {
  RunRankZero();
  events_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  End(0, 0);
  EXPECT_THAT(coordinator_.NextHeard(),
              AnyOf("rank 0 exited code 0", "rank 0 exited signal 9"));  // the grace is short
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  EXPECT_TRUE(AwaitEnd().ok());
  EXPECT_FALSE(std::filesystem::exists(spool_.path(v1::LOG_STREAM_STDOUT)));
}

TEST_F(AgentTest, AShutdownIsToldAtOnceAndItsRanksAreReportedAsStopped) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  v1::AssignedRank patient = ARank(0);
  patient.mutable_spec()->mutable_grace()->set_seconds(3600);
  coordinator_.Assign({patient});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  events_.Tell(ShutdownWanted{});
  EXPECT_TRUE(coordinator_.AwaitLeaving());
  coordinator_.Assign({patient, ARank(1)});  // placed before that was heard
  EXPECT_EQ(coordinator_.NextHeard(), "rank 1 exited error: the worker is shutting down");
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  End(0, 1);
  EXPECT_TRUE(AwaitEnd().ok());
  EXPECT_TRUE(coordinator_.stopped(0));
  EXPECT_TRUE(coordinator_.stopped(1));
}

TEST_F(AgentTest, AnIdleDaemonThatIsShutDownSaysSoBeforeItEnds) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  events_.Tell(ShutdownWanted{});
  EXPECT_TRUE(AwaitEnd().ok());
  EXPECT_TRUE(coordinator_.leaving());
}

TEST_F(AgentTest, ARankThatEndsByItselfIsNotReportedAsStopped) {
  RunRankZero();
  End(0, 1);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 1");
  EXPECT_FALSE(coordinator_.stopped(0));
}

TEST_F(AgentTest, LogLinesNameJobGenerationAndRankEach) {
  testing::internal::CaptureStderr();
  RunRankZero();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("event=rank_started job=1 generation=1 rank=0 pid=100"));
}

TEST_F(AgentTest, ASecondShutdownKillsAtOnce) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  v1::AssignedRank patient = ARank(0);
  patient.mutable_spec()->mutable_grace()->set_seconds(3600);
  coordinator_.Assign({patient});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  events_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  events_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_TRUE(AwaitEnd().ok());
}

TEST_F(AgentTest, AShutdownDoesNotWaitForACoordinatorThatIsAway) {
  RunRankZero();
  coordinator_.SetReachable(false);
  events_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  End(0, 0);
  EXPECT_TRUE(AwaitEnd().ok());
}

TEST_F(AgentTest, OfTooManyLeftOversTheOldestGo) {
  const LogSpool next(directory_.path(), {JobId(2), Generation(1), 0});
  for (const LogSpool* spool : {&spool_, &next}) {
    ASSERT_TRUE(spool->Create(absl::FromUnixSeconds(100)).ok());
    std::ofstream(spool->path(v1::LOG_STREAM_STDOUT)) << "line\n";
  }
  coordinator_.RefuseLogs(absl::ResourceExhaustedError("the disk is full"));
  left_overs_max_ = 1;
  Run();
  coordinator_.AwaitRefusals(1);
  EXPECT_FALSE(std::filesystem::exists(spool_.path(v1::LOG_STREAM_STDOUT)));
  EXPECT_TRUE(std::filesystem::exists(next.path(v1::LOG_STREAM_STDOUT)));
}

TEST_F(AgentTest, WhereTheCoordinatorIsIsLookedUpAgainInEachOfItsLives) {
  BoundedQueue<bool> looked_up(10);
  ListenerProbe probe("c:1", [&](const std::string&) {
    bool asked = true;
    looked_up.TryPush(asked);
    return ListenerProbe::Addresses();
  });
  looked_up.DrainFor(absl::Seconds(20));  // at its start
  probe_ = &probe;
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_FALSE(looked_up.DrainFor(absl::Seconds(20)).empty());
  coordinator_.Restart();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_FALSE(looked_up.DrainFor(absl::Seconds(20)).empty());
  events_.Tell(ShutdownWanted{});
  EXPECT_TRUE(AwaitEnd().ok());  // before the probe
}

}  // namespace
}  // namespace dp::worker

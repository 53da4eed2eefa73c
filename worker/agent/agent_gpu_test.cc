// GPUs of slots: when they are free or unfit, and their readings.

#include <fstream>

#include "worker/agent/testing/agent_fixture.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;

using AgentGpuTest = AgentFixture;

TEST_F(AgentGpuTest, ASlotIsReleasedWhenTheMemoryOfItsGpuIsFreeNotWhenItsProcessesAreGone) {
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

TEST_F(AgentGpuTest, ASlotWhoseGpuIsNotLetGoIsReportedBeforeItIsReleasedAndAgainWhenItIsFree) {
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

TEST_F(AgentGpuTest, ARankIsStartedOnceTheGpuOfItsSlotIsFree) {
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

TEST_F(AgentGpuTest, ANewIncarnationTellsOfItsUnhealthySlotsAnew) {
  memory_ = &gpu_;
  device_limits_.patience = absl::ZeroDuration();
  gpu_.Set(absl::UnavailableError("GPU is lost"));
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("slots 1, 0: GPU 0 (a)"));
  coordinator_.LoseWorker();
  EXPECT_EQ(coordinator_.NextHeard(), "register b");
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr(", 0: GPU 0 (a)"));
}

TEST_F(AgentGpuTest, WhatIsReadOfTheGpusIsToldWithHeartbeatsAndToACoordinatorThatWasRestarted) {
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

TEST_F(AgentGpuTest, ARankThatTrainsOnAGpuHasItsReadingsAmongItsMetricsWhileItRuns) {
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
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");  // all logs are stored
}

TEST_F(AgentGpuTest, ARankThatLeavesTheGpuOfItsSlotAloneHasNoReadingsOfIt) {
  gpus_ = &readings_;
  RunRankZero();
  for (const int percent : {7, 8, 9}) {
    readings_.Set({.utilisation_percent = percent});
    EXPECT_TRUE(coordinator_.AwaitGpuUse(percent));
  }
  EXPECT_EQ(std::filesystem::file_size(spool_.path(v1::LOG_STREAM_METRICS)), 0u);
}

TEST_F(AgentGpuTest, ASlotWhoseGpuIsNotInOrderIsUnhealthyWhateverRunsThereAndGetsNoRankUntilItIs) {
  gpus_ = &readings_;
  RunRankZero();
  readings_.Set({.uncorrected_errors = 2});
  EXPECT_THAT(coordinator_.NextHeard(),
              HasSubstr("slots 1, 0: GPU 0 (a) has had 2 uncorrected memory errors"));
  End(0, 0);  // the running rank was not stopped
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  readings_.Set({.uncorrected_errors = 0});
  EXPECT_EQ(coordinator_.NextHeard(), "slots 2");
}

TEST_F(AgentGpuTest, ARankForASlotWhoseGpuIsNotInOrderIsDeclinedWithTheReason) {
  gpus_ = &readings_;
  readings_.Set({.xid = 79});
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("0: GPU 0 (a) had Xid 79"));
  coordinator_.Assign({ARank(0)});
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("rank 0 exited"));
}

}  // namespace
}  // namespace dp::worker

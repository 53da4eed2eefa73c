#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kJob[] = R"(apiVersion: dp/v1
kind: Job
name: small
ranks: 3
train:
  data: {dir: /data}
  model: {preset: mlp}
  optimizer: {sgd: {learningRate: 0.1}}
)";

constexpr char kMetrics[] = R"(
  chunks { generation: 1 rank: 0 stream: LOG_STREAM_METRICS data:
    "{\"event\":\"start\",\"epochs_total\":1,\"steps_total\":4}\n{\"event\":\"step\",\"epoch\":1,\"step\":2,\"loss\":0.5,\"images_per_second\":100}\n" })";
constexpr char kEnd[] = R"(
  chunks { generation: 1 rank: 1 stream: LOG_STREAM_STDOUT data: "out\n" }
  chunks { generation: 1 rank: 1 stream: LOG_STREAM_STDERR data: "err\n" }
  chunks { generation: 1 rank: 0 stream: LOG_STREAM_METRICS data:
    "{\"event\":\"eval\",\"epoch\":1,\"loss\":0.25,\"accuracy\":0.912345}\n" }
  finished: true)";

class RunTest : public DpctlTest {
 protected:
  RunTest() {
    std::ofstream(file_) << kJob;
    // Pending at the first look, running at the second, over at the third.
    coordinator_.on_watch = [this](v1::Job& job) {
      job.set_version(job.version() + 1);
      if (job.version() == 2) job.add_pending_reasons("needs 3 slots, 2 are free");
      if (job.version() == 3) job.set_state(v1::JOB_STATE_RUNNING);
      if (job.version() == 3) job.add_ranks()->set_worker("w-a");
      if (job.version() == 4) End(job);
    };
  }
  ~RunTest() override { std::remove(file_.c_str()); }

  void End(v1::Job& job) const {
    job.set_state(end_);
    if (end_ != v1::JOB_STATE_FAILED) return;
    job.mutable_failure()->set_failure_class(v1::FAILURE_CLASS_USER);
    job.mutable_failure()->set_message("rank 0 on worker w-a (host a): signal 9 (SIGKILL)");
    job.mutable_failure()->mutable_exit()->set_signal(9);
  }

  v1::JobState end_ = v1::JOB_STATE_SUCCEEDED;
  const std::string file_ = ::testing::TempDir() +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                            std::string(".yaml");
};

TEST_F(RunTest, AJobIsFollowedFromTheQueueToItsAccuracy) {
  AddLogPage(kMetrics);
  AddLogPage(kEnd);
  const Result result = Dpctl("run " + file_);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "[1] out\ntest_accuracy=0.9123\n");
  EXPECT_EQ(result.err,
            "job 1 (small) submitted\n"
            "job 1 is pending: needs 3 slots, 2 are free\n"
            "job 1 is running on w-a\n"
            "[1] err\n");
}

TEST_F(RunTest, ATerminalGetsABar) {
  tty_ = true;
  AddLogPage(kMetrics);
  AddLogPage(kEnd);
  const Result result = Dpctl("run " + file_);
  EXPECT_THAT(result.err, HasSubstr("epoch 1/1 [============>           ] step 2/4  loss 0.5000"));
  EXPECT_THAT(result.err, EndsWith("\r\x1b[K"));
}

TEST_F(RunTest, AFailedJobGivesItsCodeAndRootCause) {
  end_ = v1::JOB_STATE_FAILED;
  AddLogPage(kEnd);
  const Result result = Dpctl("run " + file_);
  EXPECT_EQ(result.code, 137);
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("test_accuracy=")));
  EXPECT_THAT(result.err,
              EndsWith("dpctl: job 1 failed: rank 0 on worker w-a (host a): signal 9 (SIGKILL)\n"));
}

TEST_F(RunTest, GenerationsThatPassedUnseenAreToldAndWhyThereIsNoOther) {
  end_ = v1::JOB_STATE_FAILED;
  AddLogPage(kEnd);
  coordinator_.on_read = [this] {
    v1::Job& job = coordinator_.jobs[1];
    for (const int generation : {1, 2}) {
      v1::Failure& failure = *job.add_past_failures();
      failure.set_generation(static_cast<uint64_t>(generation));
      failure.set_message(absl::StrCat("exit code ", generation));
    }
    job.set_not_restarted_because("its budget is used up");
  };
  EXPECT_THAT(Dpctl("run " + file_).err,
              EndsWith("dpctl: job 1: generation 1 failed: exit code 1; it is restarted\n"
                       "dpctl: job 1: generation 2 failed: exit code 2; it is restarted\n"
                       "dpctl: job 1 failed: rank 0 on worker w-a (host a): signal 9 (SIGKILL)\n"
                       "dpctl: not restarted: its budget is used up\n"));
}

TEST_F(RunTest, ACancelledJobIs103) {
  end_ = v1::JOB_STATE_CANCELLED;
  AddLogPage(kEnd);
  EXPECT_EQ(Dpctl("run " + file_).code, 103);
}

TEST_F(RunTest, WithJsonStandardOutputIsTheJobAlone) {
  AddLogPage(kEnd);
  const Result result = Dpctl("run -o json " + file_);
  EXPECT_THAT(result.out, ::testing::StartsWith("{\n  \"id\": 1,\n"));
  EXPECT_THAT(result.out, HasSubstr("\"exitCode\": 0,"));
  EXPECT_THAT(result.err, HasSubstr("[1] out\n"));
}

TEST_F(RunTest, AShortAbsenceOfTheCoordinatorIsRiddenOut) {
  AddLogPage(kMetrics);
  AddLogPage(kEnd);
  auto watch = coordinator_.on_watch;
  coordinator_.on_watch = [this, watch](v1::Job& job) {
    watch(job);
    if (job.version() == 3) coordinator_.calls_lost = 2;
  };
  EXPECT_EQ(Dpctl("run " + file_).code, 0);
}

TEST_F(RunTest, AJobWhoseNumberHasBecomeAnotherOnesIsFollowedNoLonger) {
  auto watch = coordinator_.on_watch;
  coordinator_.on_watch = [watch](v1::Job& job) {
    watch(job);
    if (job.version() < 3) return;
    job.mutable_spec()->set_name("new");
    job.mutable_submitted_at()->set_seconds(7);
  };
  AddLogPage(kEnd);
  const Result result = Dpctl("run " + file_);
  EXPECT_EQ(result.code, 102);
  EXPECT_THAT(result.err, HasSubstr(" no longer, and has given its number to another one (new)"));
}

TEST_F(RunTest, ASecondCtrlCCancelsNoJobThatHasTakenTheNumber) {
  coordinator_.on_idle = [this] {
    coordinator_.jobs.at(1).mutable_submitted_at()->set_seconds(7);
    interrupts_.Raise();
    interrupts_.Raise();
  };
  EXPECT_EQ(Dpctl("run " + file_).code, 102);
  EXPECT_TRUE(coordinator_.cancelled.empty());
}

TEST_F(RunTest, AClosedOutputDetachesAndSaysHowToComeBack) {
  out_.setstate(std::ios::badbit);
  const Result result = Dpctl("run " + file_);
  EXPECT_EQ(result.code, 101);
  EXPECT_THAT(result.err,
              EndsWith("dpctl: standard output is closed; job 1 goes on without dpctl. 'dpctl logs "
                       "-f 1' follows it again, 'dpctl cancel 1' cancels it\n"));
  EXPECT_TRUE(coordinator_.cancelled.empty());
}

TEST_F(RunTest, CtrlCDetachesAndSaysHowToComeBack) {
  coordinator_.on_idle = [this] { interrupts_.Raise(); };
  const Result result = Dpctl("run " + file_);
  EXPECT_EQ(result.code, 101);
  EXPECT_THAT(result.err, HasSubstr("detached; job 1 goes on. 'dpctl logs -f 1' follows it again"));
  EXPECT_TRUE(coordinator_.cancelled.empty());
}

TEST_F(RunTest, ASecondCtrlCCancelsAndShowsWhatRanksWriteWhileTheyShutDown) {
  AddLogPage(R"(chunks { generation: 1 rank: 1 stream: LOG_STREAM_STDOUT data: "step 1\n" })");
  end_ = v1::JOB_STATE_CANCELLED;
  coordinator_.on_idle = [this] {
    interrupts_.Raise();
    interrupts_.Raise();
  };
  coordinator_.on_cancel = [this] {
    AddLogPage(R"(chunks { generation: 1 rank: 1 stream: LOG_STREAM_STDOUT data: "saved\n" }
                  finished: true)");
  };
  const Result result = Dpctl("run " + file_);
  EXPECT_EQ(result.code, 103);
  EXPECT_THAT(coordinator_.cancelled, ElementsAre(1));
  EXPECT_EQ(result.out, "[1] step 1\n[1] saved\n");
  EXPECT_THAT(result.err, HasSubstr("dpctl: job 1 is being cancelled; Ctrl-C again stops showing"));
  EXPECT_THAT(result.err, EndsWith("dpctl: job 1 was cancelled\n"));
}

TEST_F(RunTest, AThirdCtrlCNoLongerWaitsForTheEnd) {
  coordinator_.on_idle = [this] {
    interrupts_.Raise();
    interrupts_.Raise();
  };
  coordinator_.on_cancel = [this] {
    coordinator_.on_watch = [](v1::Job&) {};  // its ranks take long to end
    interrupts_.Raise();
  };
  const Result result = Dpctl("run " + file_);
  EXPECT_EQ(result.code, 103);
  EXPECT_THAT(coordinator_.cancelled, ElementsAre(1));
  EXPECT_THAT(result.err,
              EndsWith("dpctl: job 1 is still being cancelled; 'dpctl wait 1' waits for "
                       "its end\n"));
}

// Records what happens to the cluster; `lose` reports that its last worker has ended.
struct ClusterState {
  bool alive = false;
  bool ended_at_once = false;
  std::function<void(const std::string&)> lose;
};

class FakeCluster final : public LocalCluster {
 public:
  explicit FakeCluster(ClusterState& state) : state_(state) { state_.alive = true; }
  ~FakeCluster() override { state_.alive = false; }
  std::string address() const override { return "local:1"; }
  std::string credential_dir() const override { return "local"; }
  std::shared_ptr<void> Watch(std::function<void(const std::string&)> lost) override {
    state_.lose = std::move(lost);
    return nullptr;
  }
  void EndAtOnce() override { state_.ended_at_once = true; }

 private:
  ClusterState& state_;
};

TEST_F(RunTest, WhoMayNotSubmitLearnsItAndNoJobHasFailed) {
  coordinator_.submit_error = absl::PermissionDeniedError("viewer vic may not call Jobs.Submit");
  const Result result = Dpctl("run " + file_);
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "dpctl: viewer vic may not call Jobs.Submit\n");
}

TEST_F(RunTest, WithoutAUsableCredentialNoJobHasFailed) {
  for (const absl::Status& why :
       {absl::UnauthenticatedError("the certificate in /login expired"),
        absl::PermissionDeniedError("the credential's file /login/tls.key cannot be read"),
        absl::FailedPreconditionError("there is no credential in /login")}) {
    no_credentials_ = why;
    err_.str("");
    const Result result = Dpctl("run " + file_);
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_EQ(result.err, absl::StrCat("dpctl: ", std::string(why.message()), "\n"));
  }
}

TEST_F(RunTest, ARefusedHandshakeIsNoFailureOfTheJob) {
  coordinator_.calls_lost = 1000;
  coordinator_.lost_because = "Socket closed";
  refusal_ = absl::FailedPreconditionError("what listens there does not use TLS");
  EXPECT_EQ(Dpctl("run " + file_).code, 1);
}

TEST_F(RunTest, WhoseAccessEndsLearnsThatTheJobGoesOn) {
  coordinator_.watch_error = absl::UnauthenticatedError("the access of ann was revoked");
  const Result result = Dpctl("run " + file_);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, EndsWith("dpctl: the access of ann was revoked\n"
                                   "job 1 goes on without dpctl. After a login, 'dpctl logs -f 1' "
                                   "follows it again, and 'dpctl wait 1' ends with its result\n"));
}

// Such as a coordinator that has taken no submission for want of room.
TEST_F(RunTest, AnotherErrorStaysAFailureOfTheRun) {
  coordinator_.submit_error = absl::ResourceExhaustedError("1000 jobs are unfinished");
  EXPECT_EQ(Dpctl("run " + file_).code, 100);
}

class LocalRunTest : public RunTest {
 protected:
  LocalRunTest() {
    start_local_ = [this](const LocalOptions& options) {
      options_ = options;
      return std::make_unique<FakeCluster>(cluster_);
    };
  }
  LocalOptions options_;
  ClusterState cluster_;
};

TEST_F(RunTest, WithoutACoordinatorItSaysHowToRunHere) {
  coordinator_.calls_lost = 1000;
  clock_runs_ = true;
  EXPECT_THAT(Dpctl("run " + file_).err, EndsWith("Or run on this machine alone, with --local.\n"));
  EXPECT_THAT(Dpctl("torchrun x.py").err,
              EndsWith("Or run on this machine alone, with --standalone.\n"));
}

TEST_F(LocalRunTest, AWorkerOfItsOwnThatIsGoneEndsTheRunWithTheReason) {
  coordinator_.on_idle = [this] { cluster_.lose("dp-worker local-0 was ended by signal 9"); };
  const Result result = Dpctl("run --local " + file_);
  EXPECT_EQ(result.code, 100);
  EXPECT_THAT(result.err, EndsWith("dpctl: dp-worker local-0 was ended by signal 9\n"));
  EXPECT_FALSE(cluster_.alive);
}

TEST_F(LocalRunTest, AClusterOfItsOwnHoldsTheJobAndGoes) {
  AddLogPage(kEnd);
  EXPECT_EQ(Dpctl("run --local --workers 2 " + file_).code, 0);
  EXPECT_EQ(address_, "local:1");
  EXPECT_EQ(options_.workers, 2);
  EXPECT_EQ(options_.slots, 2);  // enough for three ranks
  EXPECT_EQ(options_.grace, absl::Seconds(30));
  EXPECT_FALSE(cluster_.alive);
}

TEST_F(LocalRunTest, ACoordinatorThatIsNamedInVainIsSaidOnce) {
  start_local_ = [](const LocalOptions&) { return absl::UnavailableError("no programs"); };
  const std::string ignored =
      "dpctl: --coordinator head:7070 is ignored: dpctl starts a coordinator for this job alone\n";
  EXPECT_THAT(Dpctl("--coordinator head:7070 run --local " + file_).err, StartsWith(ignored));
  err_.str("");
  EXPECT_THAT(Dpctl("run --local --coordinator=head:7070 " + file_).err, StartsWith(ignored));
  err_.str("");
  EXPECT_THAT(Dpctl("run --local " + file_).err, Not(HasSubstr("is ignored")));
}

TEST_F(LocalRunTest, CtrlCCancelsTheJobAndShowsWhatRanksWriteWhileTheyShutDown) {
  end_ = v1::JOB_STATE_CANCELLED;
  coordinator_.on_idle = [this] { interrupts_.Raise(); };
  coordinator_.on_cancel = [this] {
    EXPECT_TRUE(cluster_.alive);
    AddLogPage(kEnd);
  };
  const Result result = Dpctl("run --local " + file_);
  EXPECT_EQ(result.code, 103);
  EXPECT_EQ(result.out, "[1] out\n");
  EXPECT_THAT(result.err, EndsWith("dpctl: job 1 was cancelled\n"));
  EXPECT_FALSE(cluster_.alive);
  EXPECT_FALSE(cluster_.ended_at_once);
}

TEST_F(LocalRunTest, ASecondCtrlCEndsTheClusterAtOnce) {
  coordinator_.on_idle = [this] { interrupts_.Raise(); };  // now, and during the cancellation
  coordinator_.on_cancel = [this] {
    coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_RUNNING); };
  };
  const Result result = Dpctl("run --local " + file_);
  EXPECT_EQ(result.code, 103);
  EXPECT_THAT(coordinator_.cancelled, ElementsAre(1));
  EXPECT_THAT(result.err, EndsWith("the job ends with its coordinator and workers\n"));
  EXPECT_TRUE(cluster_.ended_at_once);
  EXPECT_FALSE(cluster_.alive);
}

TEST_F(LocalRunTest, AJobThatEndsWithAClosedOutputIsNoSuccess) {
  out_.setstate(std::ios::badbit);
  const Result result = Dpctl("run --local " + file_);
  EXPECT_EQ(result.code, 103);
  EXPECT_THAT(result.err, EndsWith("standard output is closed; the job ends with its coordinator "
                                   "and workers\n"));
}

TEST_F(LocalRunTest, AClusterWithoutRoomForTheJobIsRefused) {
  const Result result = Dpctl("run --local --workers 1 --slots 2 " + file_);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "dpctl: --slots 2 is too few for 3 ranks on 1 worker, which would wait for ever; leave "
            "it out, or give 3\n");
  EXPECT_THAT(Dpctl("run --local --workers 1 --nnodes 2 -- true").err,
              HasSubstr("--workers 1 is too few for a job of 2 nodes"));
  EXPECT_THAT(Dpctl("run --local --slots 1 --nproc-per-node 2 -- true").err,
              HasSubstr("--slots 1 is too few for 2 ranks on 1 worker"));
}

TEST_F(LocalRunTest, AJobThatTrainsOnGpusDoesNotWaitForWhatIsNotHere) {
  machine_.gpus = [] { return LocalGpus{.count = 0, .why_not = "no driver"}; };
  const std::string command = "run --local --set ranks=1 --set train.precision=bf16 " + file_;
  Result result = Dpctl(command);
  EXPECT_EQ(result.code, 100);
  EXPECT_THAT(result.err, HasSubstr("the job needs 1 GPU (train.device: cuda), and this machine "
                                    "has 0 that ranks may use (no driver)"));
  machine_.gpus = [] { return LocalGpus{.count = 1, .why_not = ""}; };
  coordinator_.workers.add_workers()->set_no_gpu_trainer("nccl: missing");
  result = Dpctl(command);
  EXPECT_EQ(result.code, 100);
  EXPECT_THAT(result.err, HasSubstr("no trainer can do so on this machine: nccl: missing"));
  EXPECT_TRUE(coordinator_.jobs.empty());
  EXPECT_FALSE(cluster_.alive);
  coordinator_.workers.mutable_workers(0)->set_trains_on_gpus(true);
  AddLogPage(kEnd);
  EXPECT_EQ(Dpctl(command).code, 0);
}

TEST_F(LocalRunTest, RelativePathsAreTakenFromWhereDpctlWasCalled) {
  AddLogPage(kEnd);
  EXPECT_EQ(
      Dpctl("run --local " + file_ + " --set train.data.dir=data --set train.trace=../t").code, 0);
  const v1::TrainSpec& train = coordinator_.jobs[1].spec().train();
  EXPECT_EQ(train.data().dir(), "/home/me/data");
  EXPECT_EQ(train.trace(), "/home/t");
  EXPECT_FALSE(train.has_output());
}

TEST_F(LocalRunTest, AClusterThatDoesNotStartIsAnInfrastructureFailure) {
  start_local_ = [](const LocalOptions&) -> absl::StatusOr<std::unique_ptr<LocalCluster>> {
    return absl::InternalError("dp-worker did not become ready: it ended at once");
  };
  const Result result = Dpctl("run --local " + file_);
  EXPECT_EQ(result.code, 100);
  EXPECT_EQ(result.err, "dpctl: dp-worker did not become ready: it ended at once\n");
}

TEST_F(LocalRunTest, CtrlCWhileTheClusterStartsEndsIt) {
  start_local_ =
      [this](const LocalOptions& options) -> absl::StatusOr<std::unique_ptr<LocalCluster>> {
    interrupts_.Raise();
    pollfd stop{.fd = options.stop, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&stop, 1, 0), 1);
    return absl::CancelledError("interrupted");
  };
  const Result result = Dpctl("run --local " + file_);
  EXPECT_EQ(result.code, 103);
  EXPECT_TRUE(coordinator_.jobs.empty());
}

TEST_F(LocalRunTest, AMachineThatCannotHoldAClusterIsNoAbsentCoordinator) {
  const char* before = getenv("TMPDIR");
  const std::string restored = before == nullptr ? "" : before;
  setenv("TMPDIR", "/no/such/directory", 1);
  start_local_ = StartLocalCluster;
  const Result result = Dpctl("run --local " + file_);
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", restored.c_str(), 1);
  EXPECT_EQ(result.code, 100);
  EXPECT_THAT(result.err, HasSubstr("set TMPDIR to one that can be written"));
  EXPECT_THAT(result.err, ::testing::Not(HasSubstr("Is the coordinator running")));
}

TEST_F(LocalRunTest, WorkersWithoutLocalAreAUsageError) {
  EXPECT_EQ(Dpctl("run --workers 2 " + file_).code, 2);
}

}  // namespace
}  // namespace dp::ctl

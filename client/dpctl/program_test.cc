#include <cstdlib>
#include <fstream>

#include "client/dpctl/program_flags.h"
#include "client/dpctl/testing/dpctl_test.h"

// A program on the command line, behind "--".

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class ProgramTest : public DpctlTest {
 protected:
  const v1::JobSpec& Submitted(const std::string& words) {
    const Result result = Dpctl("submit " + words);
    EXPECT_EQ(result.code, 0) << result.err;
    return coordinator_.jobs.rbegin()->second.spec();
  }
  void AddWorker(int slots, int gpus, v1::WorkerState state = v1::WORKER_STATE_READY) {
    v1::Worker& worker = *coordinator_.workers.add_workers();
    worker.set_slots(slots);
    worker.set_gpus(gpus);
    worker.set_state(state);
  }
};

TEST_F(ProgramTest, WhatStandsBehindTheDashesIsTheProgramFlagsAndAll) {
  const v1::JobSpec& spec = Submitted("--nnodes 2 --nproc-per-node 4 -- python3 train.py --name x");
  EXPECT_THAT(spec.command().argv(), ElementsAre("python3", "train.py", "--name", "x"));
  EXPECT_EQ(spec.ranks(), 8);
  EXPECT_EQ(spec.command().nodes(), "2");
  EXPECT_EQ(spec.name(), "train");
  EXPECT_EQ(spec.command().working_dir(), "/home/me");
}

TEST_F(ProgramTest, TorchrunsSpellingsMeanTheSame) {
  const v1::JobSpec& spec =
      Submitted("--nnodes=1:4 --nproc_per_node=2 --max_restarts=3 -- ./train");
  EXPECT_EQ(spec.command().nodes(), "1:4");
  EXPECT_EQ(spec.ranks(), 2);
  EXPECT_EQ(spec.command().max_restarts(), 3);
  EXPECT_EQ(spec.restart().max_restarts(), 3);
}

TEST_F(ProgramTest, TorchrunsVariablesHoldWhereNoFlagSaysOtherwise) {
  setenv("PET_NPROC_PER_NODE", "3", 1);
  setenv("PET_NNODES", "2", 1);
  const v1::JobSpec& spec = Submitted("--nnodes 4 -- ./train");
  unsetenv("PET_NPROC_PER_NODE");
  unsetenv("PET_NNODES");
  EXPECT_EQ(spec.ranks(), 12);
}

TEST_F(ProgramTest, TheOtherFlagsFillTheirFields) {
  const v1::JobSpec& spec = Submitted(
      "--name mine --env A=1 --env B=x=y --workdir data --contract jax --store rank0 "
      "--detect-within 7s -- ./train");
  EXPECT_EQ(spec.name(), "mine");
  EXPECT_EQ(spec.env().at("B"), "x=y");
  EXPECT_EQ(spec.command().working_dir(), "/home/me/data");
  EXPECT_EQ(spec.command().contract(), "jax");
  EXPECT_EQ(spec.command().store(), "rank0");
  EXPECT_EQ(spec.detect_within().seconds(), 7);
}

TEST_F(ProgramTest, GpusAreCountedOnAsManyWorkersAsTheJobHas) {
  AddWorker(8, 8);
  AddWorker(8, 4);
  AddWorker(8, 0);
  EXPECT_EQ(Submitted("--nnodes 2 --nproc-per-node gpu -- ./train").ranks(), 8);
  EXPECT_EQ(Submitted("--nnodes 1 --nproc-per-node auto -- ./train").ranks(), 8);
  EXPECT_EQ(Submitted("--nnodes 3 --nproc-per-node cpu -- ./train").ranks(), 24);
}

TEST_F(ProgramTest, TooFewWorkersToCountAreAUsageError) {
  AddWorker(8, 8);
  AddWorker(8, 8, v1::WORKER_STATE_LOST);
  const Result result = Dpctl("submit --nnodes 2 --nproc-per-node gpu -- ./train");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("what 2 workers have, but there are 1 with a GPU"));
}

TEST_F(ProgramTest, AnEmptyNameIsNotTakenForNone) {
  const Result result = Dpctl("submit --name  -- ./train");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--name: it is empty; give a value, or leave it out"));
}

TEST_F(ProgramTest, WhatIsWrongIsAUsageErrorThatSaysWhatToDo) {
  const std::pair<const char*, const char*> wrong[] = {
      {"submit", "give a job file, or a program"},
      {"submit --", "'--' needs a program behind it"},
      {"ps -- ./train", "run or submit before it"},
      {"submit job.yaml -- ./train", "give one of them"},
      {"submit --nnodes 2 job.yaml", "--nnodes is for a program behind '--'"},
      {"submit --set ranks=2 -- ./train", "a program has flags"},
      {"submit --nnodes two -- ./train", "command.nodes is \"two\""},
      {"submit --env A -- ./train", "expected NAME=VALUE"},
      {"submit --max-restarts x -- ./train", "--max-restarts is \"x\""}};
  for (const auto& [words, message] : wrong) {
    err_.str("");
    const Result result = Dpctl(words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_THAT(result.err, HasSubstr(message)) << words;
  }
  EXPECT_TRUE(coordinator_.jobs.empty());
}

TEST_F(ProgramTest, ACommandOfAJobFileRunsWhereDpctlWasCalled) {
  const std::string file = ::testing::TempDir() + "program_test.yaml";
  std::ofstream(file)
      << "{apiVersion: dp/v1, kind: Job, name: x, command: {argv: [a], workingDir: b}}";
  EXPECT_EQ(Submitted(file).command().working_dir(), "/home/me/b");
  std::remove(file.c_str());
}

TEST(NameAfterTest, AJobIsNamedAfterItsProgram) {
  EXPECT_EQ(NameAfter({"python3", "-u", "dir/Train_Net.py", "--epochs", "3"}), "train-net");
  EXPECT_EQ(NameAfter({"/usr/bin/python3.11", "-m", "pkg"}), "python3");
  EXPECT_EQ(NameAfter({"./build/train.exe"}), "train");
  EXPECT_EQ(NameAfter({"__"}), "command");
  EXPECT_EQ(NameAfter({std::string(100, 'a')}).size(), 63u);
}

class LocalProgramTest : public ProgramTest {
 protected:
  class Nowhere final : public LocalCluster {
   public:
    std::string address() const override { return "local:1"; }
  };

  LocalOptions StartedFor(const std::string& words) {
    LocalOptions options;
    start_local_ = [&options](const LocalOptions& asked) {
      options = asked;
      return std::make_unique<Nowhere>();
    };
    coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_SUCCEEDED); };
    AddLogPage("finished: true");
    EXPECT_EQ(Dpctl("run --local " + words).code, 0) << err_.str();
    return options;
  }
};

TEST_F(LocalProgramTest, ThereIsAWorkerForEachNode) {
  const LocalOptions options = StartedFor("--nnodes 2 --nproc-per-node 3 -- ./train");
  EXPECT_EQ(options.workers, 2);
  EXPECT_EQ(options.slots, 3);
}

TEST_F(LocalProgramTest, ThisMachinesGpusCountElseItsCores) {
  machine_ = {.cpus = 6, .gpus = [] { return LocalGpus{.count = 2, .why_not = ""}; }};
  EXPECT_EQ(StartedFor("--nproc-per-node auto -- ./train").slots, 2);
  EXPECT_EQ(StartedFor("--nproc-per-node cpu -- ./train").slots, 6);
}

TEST_F(LocalProgramTest, WithoutAGpuThereIsNothingToCount) {
  machine_.gpus = [] { return LocalGpus{.count = 0, .why_not = "no driver"}; };
  const Result result = Dpctl("run --standalone --nproc-per-node gpu -- ./train");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "dpctl: --nproc-per-node gpu: this machine has no GPU that ranks may use (no driver); "
            "give a number, or cpu\n");
}

TEST_F(LocalProgramTest, LinesCarryRankAndHost) {
  AddLogPage(R"(chunks { rank: 1 stream: LOG_STREAM_STDOUT data: "hello\n" })");
  coordinator_.on_watch = [](v1::Job& job) {
    job.set_version(job.version() + 1);
    if (job.version() > 3) job.set_state(v1::JOB_STATE_SUCCEEDED);
    if (job.version() > 2 || job.ranks_size() > 0) return;
    job.set_state(v1::JOB_STATE_RUNNING);
    job.add_ranks()->set_host("host-a");
    job.add_ranks()->set_host("host-b");
    job.mutable_ranks(1)->set_rank(1);
  };
  AddLogPage("finished: true");
  EXPECT_EQ(Dpctl("run -- ./train").out, "[1 host-b] hello\n");
}

}  // namespace
}  // namespace dp::ctl

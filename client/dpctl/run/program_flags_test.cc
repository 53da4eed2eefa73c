#include "client/dpctl/run/program_flags.h"

#include <cstdlib>
#include <fstream>

#include "client/dpctl/testing/program_test.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ProgramFlagsTest : public ProgramTest {
 protected:
  void AddWorker(int slots, int gpus, v1::WorkerState state = v1::WORKER_STATE_READY) {
    v1::Worker& worker = *coordinator_.workers.add_workers();
    worker.set_slots(slots);
    worker.set_gpus(gpus);
    worker.set_state(state);
  }
};

TEST_F(ProgramFlagsTest, WhatStandsBehindTheDashesIsTheProgramFlagsAndAll) {
  const v1::JobSpec& spec = Submitted("--nnodes 2 --nproc-per-node 4 -- python3 train.py --name x");
  EXPECT_THAT(spec.command().argv(), ElementsAre("python3", "train.py", "--name", "x"));
  EXPECT_EQ(spec.ranks(), 8);
  EXPECT_EQ(spec.command().nodes(), "2");
  EXPECT_EQ(spec.name(), "train");
  EXPECT_EQ(spec.command().working_dir(), "/home/me");
}

TEST_F(ProgramFlagsTest, AScriptNeedsNoDashesAndKeepsItsOwnFlags) {
  const v1::JobSpec& spec = Submitted("--nproc-per-node 2 -o name train.py --nnodes 4 -- x");
  EXPECT_THAT(spec.command().argv(),
              ElementsAre("python3", "-u", "train.py", "--nnodes", "4", "--", "x"));
  EXPECT_EQ(spec.ranks(), 2);
  EXPECT_THAT(Submitted("-- train.py").command().argv(), ElementsAre("python3", "-u", "train.py"));
  EXPECT_THAT(Submitted("-m pkg.train x.yaml").command().argv(),
              ElementsAre("python3", "-u", "-m", "pkg.train", "x.yaml"));
  EXPECT_THAT(Submitted("--no-python ./train.py").command().argv(), ElementsAre("./train.py"));
}

TEST_F(ProgramFlagsTest, TheInterpreterIsTorchrunsVariable) {
  setenv("PYTHON_EXEC", "/venv/bin/python", 1);
  EXPECT_EQ(Submitted("train.py").command().argv(0), "/venv/bin/python");
  unsetenv("PYTHON_EXEC");
}

TEST_F(ProgramFlagsTest, AWordInCapitalsBehindDashesIsAProgram) {
  EXPECT_EQ(Submitted("--env-from-here -- FOO").command().argv(0), "FOO");
  EXPECT_EQ(Submitted("--env-from-here train.py").command().argv(2), "train.py");
}

TEST_F(ProgramFlagsTest, LaunchGivesEachRankItsLocalRankAsTheScriptSpellsIt) {
  const std::string script = ::testing::TempDir() + "launch_test.py";
  std::ofstream(script) << "parser.add_argument('--local_rank', type=int)";
  EXPECT_THAT(Submitted("--contract launch " + script + " --lr 1").command().argv(),
              ElementsAre("python3", "-u", script, "--local_rank=${local_rank}", "--lr", "1"));
  std::remove(script.c_str());
  EXPECT_THAT(Submitted("--contract launch -- python3 -m pkg.train x").command().argv(),
              ElementsAre("python3", "-m", "pkg.train", "--local-rank=${local_rank}", "x"));
}

TEST_F(ProgramFlagsTest, TheLaunchCommandIsThatContract) {
  coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_SUCCEEDED); };
  AddLogPage("finished: true");
  AddLogPage("finished: true");
  EXPECT_EQ(Dpctl("launch --nproc_per_node=2 train.py").code, 0) << err_.str();
  EXPECT_EQ(Dpctl("launch --use_env train.py").code, 0) << err_.str();
  const v1::CommandSpec& command = coordinator_.jobs.at(1).spec().command();
  EXPECT_EQ(command.contract(), "launch");
  EXPECT_EQ(command.argv(3), "--local-rank=${local_rank}");
  EXPECT_EQ(coordinator_.jobs.at(2).spec().command().argv_size(), 3);
}

TEST_F(ProgramFlagsTest, TheOtherFlagsFillTheirFields) {
  const v1::JobSpec& spec = Submitted(
      "--name mine --env A=1 --env B=x=y --workdir data --contract launch --store rank0 "
      "--detect-within 7s -- ./train");
  EXPECT_EQ(spec.name(), "mine");
  EXPECT_EQ(spec.env().at("B"), "x=y");
  EXPECT_EQ(spec.command().working_dir(), "/home/me/data");
  EXPECT_EQ(spec.command().contract(), "launch");
  EXPECT_EQ(spec.command().store(), "rank0");
  EXPECT_EQ(spec.detect_within().seconds(), 7);
}

TEST_F(ProgramFlagsTest, GpusAreCountedOnAsManyWorkersAsTheJobHas) {
  AddWorker(8, 8);
  AddWorker(8, 4);
  AddWorker(8, 0);
  EXPECT_EQ(Submitted("--nnodes 2 --nproc-per-node gpu -- ./train").ranks(), 8);
  EXPECT_EQ(Submitted("--nnodes 1 --nproc-per-node auto -- ./train").ranks(), 8);
  EXPECT_EQ(Submitted("--nnodes 3 --nproc-per-node cpu -- ./train").ranks(), 24);
}

TEST_F(ProgramFlagsTest, WorkersThatTheConstraintsExcludeDoNotCount) {
  AddWorker(8, 0);
  AddWorker(3, 0);
  (*coordinator_.workers.mutable_workers(1)->mutable_labels())["zone"] = "b";
  const std::string file = ::testing::TempDir() + "constrained_count.yaml";
  std::ofstream(file) << "{apiVersion: dp/v1, kind: Job, name: a, constraints: [zone=b], "
                         "command: {argv: [x], nprocPerNode: cpu}}";
  EXPECT_EQ(Dpctl("submit " + file).code, 0);
  EXPECT_EQ(coordinator_.jobs[1].spec().ranks(), 3);
  std::remove(file.c_str());
}

TEST_F(ProgramFlagsTest, TooFewWorkersToCountAreAUsageError) {
  AddWorker(8, 8);
  AddWorker(8, 8, v1::WORKER_STATE_LOST);
  const Result result = Dpctl("submit --nnodes 2 --nproc-per-node gpu -- ./train");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("--nproc-per-node is gpu, but the job needs 2 workers, and only 1 of "));
}

TEST_F(ProgramFlagsTest, AnEmptyNameIsNotTakenForNone) {
  const Result result = Dpctl("submit --name  -- ./train");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--name: it is empty; give a value, or leave it out"));
}

TEST_F(ProgramFlagsTest, WhatIsWrongIsAUsageErrorThatSaysWhatToDo) {
  const std::pair<const char*, const char*> wrong[] = {
      {"submit", "give a job file, or a program"},
      {"submit --", "'--' must be followed by a program"},
      {"ps -- ./train", "not expected: ./train"},
      {"submit job.yaml -- ./train", "give one of them"},
      {"submit --nnodes 2 job.yaml",
       "--nnodes is for a program, and 'job.yaml' is read as a job file"},
      {"submit --set ranks=2 -- ./train", "a program has flags"},
      {"submit --nnodes two -- ./train", "dpctl: --nnodes is \"two\"; expected"},
      {"submit --nproc-per-node 0 -- ./train", "dpctl: --nproc-per-node is \"0\"; expected 1 to"},
      {"submit --nnodes 9999 --nproc-per-node 9999 -- ./train",
       "dpctl: --nnodes times --nproc-per-node is 99980001; expected 1 to"},
      {"submit --max-restarts 9999 -- ./train", "dpctl: --max-restarts is 9999; expected 0 to"},
      {"submit --shutdown-timeout 9999 -- ./train",
       "dpctl: --shutdown-timeout is 2h46m39s; expected"},
      {"submit --detect-within 1ms -- ./train", "dpctl: --detect-within is 1ms; expected"},
      {"submit --name A -- ./train", "dpctl: --name is \"A\"; expected"},
      {"submit --contract x -- ./train", "dpctl: --contract is \"x\"; expected torchrun, "},
      {"submit --store x -- ./train", "dpctl: --store is \"x\"; expected relay, "},
      {"submit --store relay --contract mpi -- ./train",
       "dpctl: --store is \"relay\", but ranks of contract mpi have no store that dp serves; leave "
       "the store out"},
      {"run --dry-run job.yaml",
       "dpctl: there is no flag '--dry-run' for run; 'dpctl submit' has it\n"},
      {"torchrun --priority=3 x.py",
       "there is no flag '--priority=3' for torchrun; 'dpctl submit'"},
      {"run job.yaml 3", "'3' is one word too many; change a field with --set, as --set ranks=2"},
      {"submit --signals-to-handle SIGTERM,FOO train.py",
       "dpctl: --signals-to-handle is \"SIGTERM,FOO\"; \"FOO\" is no signal; expected names"},
      {"submit --env 1A=x -- ./train",
       "dpctl: --env is \"1A=x\", but a name consists of letters, digits, "},
      {"submit --env DP_A=x -- ./train", "dpctl: --env DP_A is set by dp itself"},
      {"run python3 x.py --lr 1",
       "dpctl: 'python3' is read as a job file, and 'x.py' is one word too many; write a command "
       "line behind '--': dpctl run -- python3 ...\nSee 'dpctl run --help'.\n"},
      {"submit python3 -u x.py", "'-u' is one word too many; write a command line behind '--'"},
      {"submit python3",
       "No such file or directory; write a command line behind '--': dpctl submit "
       "-- python3 ...\n"},
      {"run --ranks 2 -- x", "dpctl: there is no flag '--ranks'"},
      {"run --ranks 2 train.py", "dpctl: there is no flag '--ranks'"},
      {"submit --rank=2 -- x", "dpctl: there is no flag '--rank=2'"},
      {"run job.yaml --nnode 2", "dpctl: there is no flag '--nnode'; did you mean '--nnodes'?\n"},
      {"torchrun --nproc_per_nod 2 x.py",
       "dpctl: there is no flag '--nproc_per_nod'; did you mean '--nproc_per_node'?\n"
       "See 'dpctl torchrun --help'.\n"},
      {"torchrun --nproc=2 x.py",
       "there is no flag '--nproc=2'; did you mean '--nproc-per-node'?\n"},
      {"torchrun -nnodes=2 x.py", "there is no flag '-nnodes=2'; did you mean '--nnodes'?\n"},
      {"torchrun --lr 2 x.py", "there is no flag '--lr'\n"},
      {"torchrun --env-from-here FOO,B_* x.py",
       "dpctl: --env-from-here takes names behind '=': write --env-from-here=FOO,B_*; "},
      {"run --env-from-here FOO x.py", "write --env-from-here=FOO; "},
      {"torchrun --print-completion", "--print-completion: 'dpctl completion bash' and "},
      {"torchrun --print-completion fish", "--print-completion: 'dpctl completion bash' and "},
      {"torchrun -t=7 x.py", "--tee is \"7\"; expected 0 to 3"},
      {"run --workers 2 x.py", "--workers 2 is of the workers that --local starts; give --local"},
      {"submit --env =x -- ./train", "expected NAME=VALUE"},
      {"submit --env DP_TEST_NOT_SET -- ./train", "it is not set here"},
      {"torchrun", "give a program: dpctl torchrun --nproc-per-node 2 train.py"},
      {"torchrun -m --no-python train", "give one of them"},
      {"submit --shutdown-timeout soon train.py", "--shutdown-timeout is \"soon\""},
      {"submit --max-restarts x -- ./train", "--max-restarts is \"x\""}};
  for (const auto& [words, message] : wrong) {
    err_.str("");
    const Result result = Dpctl(words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_THAT(result.err, HasSubstr(message)) << words;
  }
  EXPECT_TRUE(coordinator_.jobs.empty());
}

TEST_F(ProgramFlagsTest, ACommandOfAJobFileRunsWhereDpctlWasCalled) {
  const std::string file = ::testing::TempDir() + "program_test.yaml";
  std::ofstream(file)
      << "{apiVersion: dp/v1, kind: Job, name: x, command: {argv: [a], workingDir: b}}";
  EXPECT_EQ(Submitted(file).command().working_dir(), "/home/me/b");
  std::remove(file.c_str());
}

}  // namespace
}  // namespace dp::ctl

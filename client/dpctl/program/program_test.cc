#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "client/dpctl/run/program_flags.h"
#include "client/dpctl/testing/dpctl_test.h"

// Programs on the command line, behind "--".

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

TEST_F(ProgramTest, AScriptNeedsNoDashesAndKeepsItsOwnFlags) {
  const v1::JobSpec& spec = Submitted("--nproc-per-node 2 -o name train.py --nnodes 4 -- x");
  EXPECT_THAT(spec.command().argv(),
              ElementsAre("python3", "-u", "train.py", "--nnodes", "4", "--", "x"));
  EXPECT_EQ(spec.ranks(), 2);
  EXPECT_THAT(Submitted("-- train.py").command().argv(), ElementsAre("python3", "-u", "train.py"));
  EXPECT_THAT(Submitted("-m pkg.train x.yaml").command().argv(),
              ElementsAre("python3", "-u", "-m", "pkg.train", "x.yaml"));
  EXPECT_THAT(Submitted("--no-python ./train.py").command().argv(), ElementsAre("./train.py"));
}

TEST_F(ProgramTest, TheInterpreterIsTorchrunsVariable) {
  setenv("PYTHON_EXEC", "/venv/bin/python", 1);
  EXPECT_EQ(Submitted("train.py").command().argv(0), "/venv/bin/python");
  unsetenv("PYTHON_EXEC");
}

// Every flag of torchrun 2.15 in each spelling, except for print-completion.
constexpr char kEveryFlag[] =
    "--nnodes=1:1 --nproc-per-node=2 --nproc_per_node=2 --rdzv-backend c10d --rdzv_backend static "
    "--rdzv-endpoint h:1 --rdzv_endpoint h:1 --rdzv-id a --rdzv_id b --rdzv-conf x=1 "
    "--rdzv_conf x=1 --max-restarts 1 --max_restarts 2 --monitor-interval 1 --monitor_interval .1 "
    "--start-method fork --start_method spawn --event-log-handler null --event_log_handler null "
    "--role trainer --run-path --run_path --log-dir /tmp --log_dir /tmp -r 3 --redirects 0:1,1:2 "
    "-t3 --tee 0 --log-line-prefix-template x --log_line_prefix_template x "
    "--local-ranks-filter 0 --local_ranks_filter 0,1 --duplicate-stdout-filters a,b "
    "--duplicate_stdout_filters a --duplicate-stderr-filters a --duplicate_stderr_filters a "
    "--node-rank 0 --node_rank 1 --master-addr h --master_addr h --master-port 1 --master_port 2 "
    "--local-addr h --local_addr h --logs-specs default --logs_specs default --numa-binding node "
    "--numa_binding node --signals-to-handle SIGTERM --signals_to_handle SIGTERM,SIGUSR1 "
    "--shutdown-timeout 5 --shutdown_timeout 7 --virtual-local-rank --virtual_local_rank "
    "train.py --lr 1";

TEST_F(ProgramTest, EveryFlagOfTorchrunIsTakenInEachSpelling) {
  coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_SUCCEEDED); };
  AddLogPage("finished: true");
  const Result result = Dpctl(std::string("torchrun ") + kEveryFlag);
  EXPECT_EQ(result.code, 0) << result.err;
  const v1::JobSpec& spec = coordinator_.jobs.at(1).spec();
  EXPECT_THAT(spec.command().argv(), ElementsAre("python3", "-u", "train.py", "--lr", "1"));
  EXPECT_EQ(spec.ranks(), 2);
  EXPECT_EQ(spec.command().max_restarts(), 2);
  EXPECT_EQ(spec.grace().seconds(), 7);
  EXPECT_TRUE(spec.command().virtual_local_rank());
  EXPECT_EQ(spec.env().at("TORCHELASTIC_RUN_ID"), "b");
  EXPECT_EQ(spec.env().at("ROLE_NAME"), "trainer");
  EXPECT_EQ(spec.env().at("TORCHELASTIC_SIGNALS_TO_HANDLE"), "SIGTERM,SIGUSR1");
}

TEST_F(ProgramTest, FlagsThatAreNotNeededAreNamedWithTheReasonOnceForEachReason) {
  const Result result = Dpctl(
      "submit --rdzv-backend c10d --rdzv-endpoint h:1 --node-rank 1 --max-restarts 1 train.py");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err,
              HasSubstr("dpctl: --rdzv-backend, --rdzv-endpoint are not needed: the coordinator "
                        "brings the ranks together\n"
                        "dpctl: --node-rank is not needed: the coordinator numbers the workers: "
                        "run this once, not on each node\n"));
  EXPECT_THAT(result.err, ::testing::Not(HasSubstr("--max-restarts")));
}

TEST_F(ProgramTest, EveryVariableOfTorchrunIsRead) {
  const std::pair<const char*, const char*> variables[] = {
      {"PET_ROLE", "critic"}, {"PET_SHUTDOWN_TIMEOUT", "9"}, {"PET_NO_PYTHON", "1"},
      {"PET_MODULE", "0"},    {"PET_RDZV_ENDPOINT", "h:1"},  {"PET_RDZV_ID", "x"}};
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  const v1::JobSpec& spec = Submitted("--rdzv-id y -- train.py");
  for (const auto& [name, value] : variables) unsetenv(name);
  EXPECT_EQ(spec.env().at("ROLE_NAME"), "critic");
  EXPECT_EQ(spec.env().at("TORCHELASTIC_RUN_ID"), "y");
  EXPECT_EQ(spec.grace().seconds(), 9);
  EXPECT_THAT(spec.command().argv(), ElementsAre("train.py"));
}

TEST_F(ProgramTest, ASwitchOfTorchrunIsOffWhereItsVariableSaysSo) {
  for (const char* off : {"0", "false"}) {
    setenv("PET_NO_PYTHON", off, 1);
    EXPECT_EQ(Submitted("train.py").command().argv_size(), 3) << off;
    unsetenv("PET_NO_PYTHON");
  }
}

TEST_F(ProgramTest, AWordInCapitalsBehindDashesIsAProgram) {
  EXPECT_EQ(Submitted("--env-from-here -- FOO").command().argv(0), "FOO");
  EXPECT_EQ(Submitted("--env-from-here train.py").command().argv(2), "train.py");
}

TEST_F(ProgramTest, LaunchGivesEachRankItsLocalRankAsTheScriptSpellsIt) {
  const std::string script = ::testing::TempDir() + "launch_test.py";
  std::ofstream(script) << "parser.add_argument('--local_rank', type=int)";
  EXPECT_THAT(Submitted("--contract launch " + script + " --lr 1").command().argv(),
              ElementsAre("python3", "-u", script, "--local_rank=${local_rank}", "--lr", "1"));
  std::remove(script.c_str());
  EXPECT_THAT(Submitted("--contract launch -- python3 -m pkg.train x").command().argv(),
              ElementsAre("python3", "-m", "pkg.train", "--local-rank=${local_rank}", "x"));
}

TEST_F(ProgramTest, TheLaunchCommandIsThatContract) {
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

TEST_F(ProgramTest, TheRemedyForAProgramThatWaitsForItsOwnStoreIsShownAfterASilence) {
  const std::string script = ::testing::TempDir() + "spawn_test.py";
  std::ofstream(script) << "os.environ['MASTER_PORT'] = '12355'\nmp.spawn(train, nprocs=2)";
  coordinator_.on_watch = [this](v1::Job& job) {
    job.set_state(job.version() < 3 ? v1::JOB_STATE_RUNNING : v1::JOB_STATE_SUCCEEDED);
    job.set_version(job.version() + 2);
  };
  coordinator_.on_read = [this] { PassTime(absl::Seconds(10)); };
  for (const char* store : {"relay", "program"}) {
    AddLogPage("");
    AddLogPage("finished: true");
    err_.str("");
    const Result result = Dpctl(absl::StrCat("run --store ", store, " ", script));
    EXPECT_EQ(absl::StrContains(result.err, "dpctl: no output for 10s: the program starts"),
              store == std::string("relay"))
        << result.err;
  }
  std::remove(script.c_str());
}

TEST_F(ProgramTest, LinesGoWhereTorchrunsFlagsSendThem) {
  const std::string dir = ::testing::TempDir() + "redirected";
  std::filesystem::remove_all(dir);
  coordinator_.on_watch = [](v1::Job& job) {
    job.set_state(job.version() < 3 ? v1::JOB_STATE_RUNNING : v1::JOB_STATE_SUCCEEDED);
    job.set_version(job.version() + 2);
  };
  AddLogPage(R"(chunks { generation: 1 rank: 0 stream: LOG_STREAM_STDOUT data: "zero\n" }
                chunks { generation: 1 rank: 1 stream: LOG_STREAM_STDOUT data: "one\n" }
                finished: true)");
  const Result result = Dpctl("torchrun --nproc-per-node 2 -r 0:1 -t 1:1 --log-dir " + dir +
                              " --log-line-prefix-template ${role_name}${local_rank}= train.py");
  EXPECT_EQ(result.out, "default1=one\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("dpctl: the ranks' lines go to " + dir + "/dp-logs-"));
  const auto run = std::filesystem::directory_iterator(dir)->path();
  std::ifstream file(run / "attempt_0" / "0" / "stdout.log");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "zero\n");
  EXPECT_TRUE(std::filesystem::exists(run / "attempt_0" / "1" / "stdout.log"));
  std::filesystem::remove_all(dir);
}

TEST_F(ProgramTest, WithoutADirectoryForFilesItIsSaidWhereTheLinesAre) {
  coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_SUCCEEDED); };
  AddLogPage("finished: true");
  EXPECT_THAT(Dpctl("torchrun -r=3 train.py").err,
              HasSubstr("dpctl: no files are written without --log-dir; 'dpctl logs 1' shows every "
                        "line, also those that --redirects keeps from here\n"));
}

TEST_F(ProgramTest, LinesThatNoFileTakesAreShown) {
  coordinator_.on_watch = [](v1::Job& job) {
    job.set_state(job.version() < 3 ? v1::JOB_STATE_RUNNING : v1::JOB_STATE_SUCCEEDED);
    job.set_version(job.version() + 2);
  };
  AddLogPage(R"(chunks { generation: 1 rank: 0 stream: LOG_STREAM_STDOUT data: "one\ntwo\n" }
                finished: true)");
  const Result result =
      Dpctl("torchrun -r 3 --log-dir /dev/null/logs --log-line-prefix-template = train.py");
  EXPECT_EQ(result.out, "=one\n=two\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("stdout.log cannot be written: Not a directory; further lines "
                                    "are shown here\n"));
}

TEST_F(ProgramTest, LocalRanksAreThoseOfThePlacementWhereTheJobLeavesThemToIt) {
  const std::string file = ::testing::TempDir() + "local_ranks_test.yaml";
  std::ofstream(file) << "{apiVersion: dp/v1, kind: Job, name: x, ranks: 3, command: {argv: [a]}}";
  coordinator_.on_watch = [](v1::Job& job) {
    job.set_state(job.version() < 3 ? v1::JOB_STATE_RUNNING : v1::JOB_STATE_SUCCEEDED);
    job.set_version(job.version() + 2);
    job.set_generation(1);
    job.clear_ranks();
    for (int rank = 0; rank < 3; ++rank) {
      v1::Rank& placed = *job.add_ranks();
      placed.set_rank(rank);
      placed.set_worker_id(rank < 1 ? 7 : 8);
    }
  };
  AddLogPage(R"(chunks { generation: 1 rank: 0 stream: LOG_STREAM_STDOUT data: "a\n" }
                chunks { generation: 1 rank: 1 stream: LOG_STREAM_STDOUT data: "b\n" }
                chunks { generation: 1 rank: 2 stream: LOG_STREAM_STDOUT data: "c\n" }
                finished: true)");
  setenv("PET_LOCAL_RANKS_FILTER", "0", 1);
  setenv("PET_LOG_LINE_PREFIX_TEMPLATE", "${local_rank}:", 1);
  const Result result = Dpctl("run " + file);
  unsetenv("PET_LOCAL_RANKS_FILTER");
  unsetenv("PET_LOG_LINE_PREFIX_TEMPLATE");
  EXPECT_EQ(result.out, "0:a\n0:b\n") << result.err;
  std::remove(file.c_str());
}

TEST_F(ProgramTest, LocalRanksThatNoWorkerHasAreTold) {
  coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_SUCCEEDED); };
  const auto notes = [this](const std::string& flags) {
    AddLogPage("finished: true");
    err_.str("");
    EXPECT_EQ(Dpctl("run --log-dir /dev/null/logs " + flags + " train.py").code, 0);
    return err_.str();
  };
  EXPECT_THAT(notes("--nproc-per-node 2 -r 0:1,7:3"),
              HasSubstr("dpctl: --redirects is \"0:1,7:3\", but no worker has local rank 7; local "
                        "ranks are 0 to 1\n"));
  EXPECT_THAT(notes("--nnodes 2 --nproc-per-node 2 -t 2:1,3:1"),
              HasSubstr("dpctl: --tee is \"2:1,3:1\", but no worker has local rank 2, 3; "));
  EXPECT_THAT(notes("--local-ranks-filter 0,5"),
              HasSubstr("dpctl: --local-ranks-filter is \"0,5\", but no worker has local rank 5; "
                        "local ranks are 0 alone\n"));
  EXPECT_THAT(notes("--nproc-per-node 2 -r 3 -t 1:1 --local-ranks-filter 1"),
              ::testing::Not(HasSubstr("no worker has")));
}

TEST_F(ProgramTest, AWrongMapOfStreamsIsRefusedBeforeTheJobIsSubmitted) {
  EXPECT_EQ(Dpctl("torchrun --tee 7 train.py").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("--tee is \"7\"; expected 0 to 3"));
  EXPECT_TRUE(coordinator_.jobs.empty());
}

TEST_F(ProgramTest, TheEnvironmentFromHereIsAnAllowList) {
  setenv("VIRTUAL_ENV", "/venv", 1);
  setenv("MY_CACHE", "/cache", 1);
  setenv("MY_API_KEY", "hidden", 1);
  const char* more_secrets[] = {"MY_DB_PASSWD", "MY_Passphrase", "MY_CREDENTIALS", "MY_AUTH"};
  for (const char* name : more_secrets) setenv(name, "hidden", 1);
  const v1::JobSpec plain = Submitted("--env-from-here --env PATH=/p train.py");
  const v1::JobSpec more = Submitted("--env-from-here=MY_* --env MY_API_KEY train.py");
  const v1::JobSpec prefix = Submitted("--env-from-here=MY_* train.py");
  for (const char* name : {"VIRTUAL_ENV", "MY_CACHE", "MY_API_KEY"}) unsetenv(name);
  for (const char* name : more_secrets) unsetenv(name);
  EXPECT_EQ(plain.env().at("VIRTUAL_ENV"), "/venv");
  EXPECT_EQ(plain.env().at("PATH"), "/p");
  EXPECT_FALSE(plain.env().contains("MY_CACHE"));
  EXPECT_EQ(more.env().at("MY_CACHE"), "/cache");
  EXPECT_EQ(more.env().at("MY_API_KEY"), "hidden");
  EXPECT_EQ(prefix.env().at("MY_CACHE"), "/cache");
  EXPECT_FALSE(prefix.env().contains("MY_API_KEY"));
  for (const char* name : more_secrets) EXPECT_FALSE(prefix.env().contains(name)) << name;
}

TEST_F(ProgramTest, NamesThatAreNotSetHereAreTold) {
  setenv("MY_CACHE", "/cache", 1);
  Submitted("--env-from-here=MY_CACHE,MY_C*,DP_TEST_NOT_SET,DP_TEST_NO* train.py");
  unsetenv("MY_CACHE");
  EXPECT_THAT(err_.str(), ::testing::StartsWith(
                              "dpctl: --env-from-here: DP_TEST_NOT_SET names no variable that is "
                              "set here; the ranks get none\n"
                              "dpctl: --env-from-here: DP_TEST_NO* names no variable"));
  EXPECT_THAT(err_.str(), ::testing::Not(HasSubstr("MY_C")));
}

TEST_F(ProgramTest, ANameThatProgramsCannotReadIsNotPassedOnByAPrefix) {
  setenv("MY_FUNC%%", "() { :; }", 1);
  const v1::JobSpec spec = Submitted("--env-from-here=MY_* train.py");
  unsetenv("MY_FUNC%%");
  EXPECT_FALSE(spec.env().contains("MY_FUNC%%"));
}

TEST_F(ProgramTest, TheOtherFlagsFillTheirFields) {
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
      {"submit --", "'--' must be followed by a program"},
      {"ps -- ./train", "and follow run, submit, torchrun or launch"},
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
       "dpctl: --store relay is given, but ranks of --contract mpi have no rendezvous store"},
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

TEST_F(ProgramTest, WhatIsWrongWithAVariableOfTorchrunIsSaidOfTheVariable) {
  const std::pair<const char*, const char*> wrong[] = {
      {"PET_STANDALONE", "dpctl: PET_STANDALONE is \"x\"; expected 1 for on, 0 for off"},
      {"PET_NO_PYTHON", "dpctl: PET_NO_PYTHON is \"x\"; expected 1 for on, 0 for off"},
      {"PET_NPROC_PER_NODE", "dpctl: PET_NPROC_PER_NODE is \"x\"; expected 1 to"},
      {"PET_MAX_RESTARTS", "dpctl: PET_MAX_RESTARTS is \"x\"; expected a number"},
      {"PET_SIGNALS_TO_HANDLE", "dpctl: PET_SIGNALS_TO_HANDLE is \"x\"; \"x\" is no signal"},
      {"PET_TEE", "dpctl: PET_TEE is \"x\"; expected 0 to 3"},
      {"PET_LOCAL_RANKS_FILTER", "dpctl: PET_LOCAL_RANKS_FILTER is \"x\"; expected local ranks"}};
  for (const auto& [name, message] : wrong) {
    err_.str("");
    setenv(name, "x", 1);
    const Result result = Dpctl("run train.py");
    unsetenv(name);
    EXPECT_EQ(result.code, 2) << name;
    EXPECT_THAT(result.err, HasSubstr(message));
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

class LocalProgramTest : public ProgramTest {
 protected:
  class Nowhere final : public LocalCluster {
   public:
    std::string address() const override { return "local:1"; }
    void EndAtOnce() override {}
    std::shared_ptr<void> Watch(std::function<void(const std::string&)>) override {
      return nullptr;
    }
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

TEST_F(LocalProgramTest, TorchrunsVariableStartsItToo) {
  start_local_ = [](const LocalOptions&) { return std::make_unique<Nowhere>(); };
  coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_SUCCEEDED); };
  AddLogPage("finished: true");
  setenv("PET_STANDALONE", "1", 1);
  EXPECT_EQ(Dpctl("run --workers 2 -- ./train").code, 0) << err_.str();
  EXPECT_EQ(address_, "local:1");
  EXPECT_EQ(Dpctl("ps").code, 0);
  unsetenv("PET_STANDALONE");
}

TEST_F(LocalProgramTest, AStoreThatTheCoordinatorServesIsServedByTheLocalOneToo) {
  EXPECT_TRUE(StartedFor("--store direct -- ./train").serves_stores);
  EXPECT_FALSE(StartedFor("-- ./train").serves_stores);
}

TEST_F(LocalProgramTest, LocalRunsHaveIdsOfTheirOwn) {
  const auto id = [this](const std::string& flags) {
    (void)StartedFor(flags + " -- ./train");
    const auto& env = coordinator_.jobs.rbegin()->second.spec().env();
    return env.contains("TORCHELASTIC_RUN_ID") ? env.at("TORCHELASTIC_RUN_ID") : "";
  };
  const std::string first = id("");
  EXPECT_THAT(first, ::testing::StartsWith("dp-local-"));
  EXPECT_NE(id(""), first);
  EXPECT_EQ(id("--rdzv-id mine"), "mine");
  EXPECT_EQ(id("--contract plain"), "");
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

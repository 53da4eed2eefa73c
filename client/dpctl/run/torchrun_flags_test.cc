#include "client/dpctl/run/torchrun_flags.h"

#include <cstdlib>

#include "client/dpctl/testing/program_test.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TorchrunFlagsTest : public ProgramTest {};

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

TEST_F(TorchrunFlagsTest, TorchrunsSpellingsMeanTheSame) {
  const v1::JobSpec& spec =
      Submitted("--nnodes=1:4 --nproc_per_node=2 --max_restarts=3 -- ./train");
  EXPECT_EQ(spec.command().nodes(), "1:4");
  EXPECT_EQ(spec.ranks(), 2);
  EXPECT_EQ(spec.command().max_restarts(), 3);
  EXPECT_EQ(spec.restart().max_restarts(), 3);
}

TEST_F(TorchrunFlagsTest, TorchrunsVariablesHoldWhereNoFlagSaysOtherwise) {
  setenv("PET_NPROC_PER_NODE", "3", 1);
  setenv("PET_NNODES", "2", 1);
  const v1::JobSpec& spec = Submitted("--nnodes 4 -- ./train");
  unsetenv("PET_NPROC_PER_NODE");
  unsetenv("PET_NNODES");
  EXPECT_EQ(spec.ranks(), 12);
}

TEST_F(TorchrunFlagsTest, EveryFlagOfTorchrunIsTakenInEachSpelling) {
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

TEST_F(TorchrunFlagsTest, FlagsThatAreNotNeededAreNamedWithTheReasonOnceForEachReason) {
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

TEST_F(TorchrunFlagsTest, EveryVariableOfTorchrunIsRead) {
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

TEST_F(TorchrunFlagsTest, ASwitchOfTorchrunIsOffWhereItsVariableSaysSo) {
  for (const char* off : {"0", "false"}) {
    setenv("PET_NO_PYTHON", off, 1);
    EXPECT_EQ(Submitted("train.py").command().argv_size(), 3) << off;
    unsetenv("PET_NO_PYTHON");
  }
}

TEST_F(TorchrunFlagsTest, AWrongMapOfStreamsIsRefusedBeforeTheJobIsSubmitted) {
  EXPECT_EQ(Dpctl("torchrun --tee 7 train.py").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("--tee is \"7\"; expected 0 to 3"));
  EXPECT_TRUE(coordinator_.jobs.empty());
}

TEST_F(TorchrunFlagsTest, WhatIsWrongWithAVariableOfTorchrunIsSaidOfTheVariable) {
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

}  // namespace
}  // namespace dp::ctl

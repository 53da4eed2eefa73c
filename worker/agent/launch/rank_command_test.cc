#include "worker/agent/launch/rank_command.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using testing::StartsWith;

class RankCommandTest : public testing::Test {
 protected:
  RankCommandTest() {
    rank_.set_job(7);
    rank_.set_generation(2);
    rank_.set_rank(3);
    rank_.set_world_size(4);
    rank_.set_local_rank(1);
    rank_.mutable_spec()->mutable_train();
  }
  RankCommand Command() const {
    return *CommandFor(rank_, host_, {}, LogSpool("/state", KeyOf(rank_)));
  }

  v1::AssignedRank rank_;
  RankHost host_{.coordinator = "10.0.0.1:7070",
                 .worker = "gpu-a",
                 .address = "10.0.0.2",
                 .trainer = "/opt/dp-trainer",
                 .environment = {"PATH=/bin", "DP_RANK=99", "DP_STRAY=1"}};
};

TEST_F(RankCommandTest, ARankIsToldItsPlace) {
  EXPECT_THAT(
      Command().environment,
      ElementsAre("DP_ADDRESS=10.0.0.2", "DP_COORDINATOR=10.0.0.1:7070", "DP_GENERATION=2",
                  "DP_JOB=7", "DP_LOCAL_RANK=1", "DP_METRICS_FILE=/state/spool/7/2/3.metrics",
                  "DP_RANK=3", "DP_WORKER=gpu-a", "DP_WORLD_SIZE=4", "GOMP_SPINCOUNT=1000",
                  "OMP_NUM_THREADS=1", "PATH=/bin"));
}

TEST_F(RankCommandTest, ACommandCanNameTheWorkersOwnTrainer) {
  v1::CommandSpec& command = *rank_.mutable_spec()->mutable_command();
  command.add_argv("${dp_trainer}");
  command.add_argv("${dp_trainer}");
  rank_.add_hosts()->add_slots(0);
  EXPECT_THAT(Command().argv, ElementsAre("/opt/dp-trainer", "${dp_trainer}"));
}

TEST_F(RankCommandTest, ARankWithATokenFindsItsCredential) {
  host_.credential_dir = "/state/credential";
  host_.environment.push_back("DP_CREDENTIALS=/home/ann");  // the daemon's own
  EXPECT_THAT(Command().environment, Not(Contains(StartsWith("DP_CREDENTIALS="))));
  rank_.set_token("token");
  EXPECT_THAT(Command().environment, Contains("DP_CREDENTIALS=/state/spool/7/2/3.credential"));
  EXPECT_THAT(Command().environment, Not(Contains(StartsWith("DP_ACCEPT_OTHER_USERS="))));
  host_.accept_other_users = true;
  EXPECT_THAT(Command().environment, Contains("DP_ACCEPT_OTHER_USERS=1"));
  (*rank_.mutable_spec()->mutable_env())["DP_CREDENTIALS"] = "/elsewhere";
  EXPECT_THAT(Command().environment, Contains("DP_CREDENTIALS=/state/spool/7/2/3.credential"));
}

TEST_F(RankCommandTest, ARankOfAnotherUserHasThatUsersHomeAndNames) {
  host_.environment = {
      "HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/sh", "XDG_RUNTIME_DIR=/run/user/0",
      "PATH=/bin"};
  const Account ann{.name = "ann", .uid = 1000, .home = "/home/ann", .shell = "/bin/zsh"};
  const RankCommand command = *CommandFor(rank_, host_, {}, LogSpool("/state", KeyOf(rank_)), ann);
  EXPECT_EQ(command.run_as, ann);
  EXPECT_THAT(command.environment,
              testing::IsSupersetOf(
                  {"HOME=/home/ann", "USER=ann", "LOGNAME=ann", "SHELL=/bin/zsh", "PATH=/bin"}));
  EXPECT_THAT(command.environment, Not(Contains(StartsWith("XDG_"))));
  EXPECT_THAT(Command().environment, Contains("HOME=/root"));
}

// A coordinator that serves plain text beside TLS gives tokens to every worker.
TEST_F(RankCommandTest, ARankOfADaemonInPlainTextHasNoCredential) {
  rank_.set_token("token");
  EXPECT_THAT(Command().environment, Not(Contains(StartsWith("DP_CREDENTIALS="))));
}

TEST_F(RankCommandTest, TheJobsVariablesWinButNotOverTheRanksPlace) {
  (*rank_.mutable_spec()->mutable_env())["PATH"] = "/usr/bin";
  (*rank_.mutable_spec()->mutable_env())["DP_RANK"] = "0";
  EXPECT_THAT(Command().environment, Contains("PATH=/usr/bin"));
  EXPECT_THAT(Command().environment, Contains("DP_RANK=3"));
}

class RankSandboxTest : public RankCommandTest {
 protected:
  RankSandboxTest() {
    host_.environment.push_back("TMPDIR=/scratch");
    rank_.mutable_spec()->mutable_command()->add_argv("tool");
    rank_.add_hosts()->set_address("10.0.0.2");
  }
  std::string Refusal() const {
    return std::string(
        CommandFor(rank_, host_, {}, LogSpool("/state", KeyOf(rank_))).status().message());
  }
};

TEST_F(RankSandboxTest, WithoutOptionsARankIsNotConfined) {
  EXPECT_FALSE(Command().mounts.any());
  EXPECT_THAT(Command().allowed_programs, testing::IsEmpty());
  EXPECT_THAT(Command().environment, Contains("TMPDIR=/scratch"));
}

TEST_F(RankSandboxTest, WithAPrivateTmpThatOfTheDaemonIsForgotten) {
  host_.sandbox.private_tmp = true;
  EXPECT_THAT(Command().environment, Not(Contains(StartsWith("TMPDIR="))));
  (*rank_.mutable_spec()->mutable_env())["TMPDIR"] = "/of/the/job";
  EXPECT_THAT(Command().environment, Contains("TMPDIR=/of/the/job"));
}

TEST_F(RankSandboxTest, WithAReadOnlyRootARankWritesItsSpoolAndTheGivenPaths) {
  host_.sandbox = {.read_only_root = true, .writable = {"/scratch"}, .shown = {"/opt/dp-trainer"}};
  EXPECT_EQ(Command().mounts, (RankMounts{.read_only_root = true,
                                          .writable = {"/scratch", "/state/spool/7/2"},
                                          .shown = {"/opt/dp-trainer"}}));
}

TEST_F(RankSandboxTest, OnlyTheProgramsOfCommandsAreLimited) {
  host_.sandbox.allowed_programs = {"/usr/bin/python3*"};
  EXPECT_THAT(Command().allowed_programs, ElementsAre("/usr/bin/python3*"));
  rank_.mutable_spec()->mutable_train();
  EXPECT_THAT(Command().allowed_programs, testing::IsEmpty());
}

TEST_F(RankSandboxTest, TheWorkersOwnTrainerNeedsNoPermission) {
  host_.sandbox.allowed_programs = {"/usr/bin/python3*"};
  rank_.mutable_spec()->mutable_command()->clear_argv();
  rank_.mutable_spec()->mutable_command()->add_argv("${dp_trainer}");
  EXPECT_THAT(Command().allowed_programs, testing::IsEmpty());
}

TEST_F(RankSandboxTest, NoVariableMakesAnAllowedProgramLoadOtherCode) {
  (*rank_.mutable_spec()->mutable_env())["LD_PRELOAD"] = "/home/ann/lib.so";
  EXPECT_EQ(Refusal(), "");
  host_.sandbox.allowed_programs = {"/usr/bin/tool"};
  EXPECT_EQ(
      Refusal(),
      "job 7: worker gpu-a allows only some programs (--allow-program), and variable "
      "LD_PRELOAD can make them run others; remove it from the job, or choose another worker");
  rank_.mutable_spec()->clear_env();
  rank_.mutable_spec()->add_secrets("LD_AUDIT");
  EXPECT_THAT(Refusal(), testing::HasSubstr("variable LD_AUDIT"));
  rank_.mutable_spec()->clear_secrets();
  (*rank_.mutable_spec()->mutable_env())["OPENSSL_CONF"] = "/home/ann/openssl.cnf";
  EXPECT_THAT(Refusal(), testing::HasSubstr("variable OPENSSL_CONF"));
}

TEST_F(RankSandboxTest, APluginIsAProgramThatMustBeAllowed) {
  v1::PluginSpec& plugin =
      *rank_.mutable_spec()->mutable_train()->mutable_model()->mutable_plugin();
  plugin.set_library("/home/ann/mine.so");
  EXPECT_EQ(Refusal(), "");
  host_.sandbox.allowed_programs = {"/opt/plugins/"};
  EXPECT_EQ(Refusal(),
            "job 7: worker gpu-a does not allow the plug-in library /home/ann/mine.so; choose "
            "another one, or start the worker with --allow-program /home/ann/mine.so");
  plugin.set_library("/opt/plugins/mine.so");
  EXPECT_EQ(Refusal(), "");
  plugin.set_library("/opt/plugins/../../home/ann/mine.so");
  EXPECT_THAT(Refusal(), testing::HasSubstr("does not allow the plug-in library /opt/plugins/../"));
}

class RankSecretsTest : public RankCommandTest {
 protected:
  RankSecretsTest() {
    rank_.mutable_spec()->add_secrets("HF_TOKEN");
    Give("HF_TOKEN", "hf_abc\n\xff");
  }
  void Give(const std::string& name, const std::string& value) {
    v1::Secret* secret = rank_.add_secrets();
    secret->set_name(name);
    secret->set_value(value);
  }
  std::string Refusal() const {
    return std::string(
        CommandFor(rank_, host_, {}, LogSpool("/state", KeyOf(rank_))).status().message());
  }
};

TEST_F(RankSecretsTest, ASecretIsAVariableThatWins) {
  host_.environment.push_back("HF_TOKEN=the host's");
  EXPECT_THAT(Command().environment, Contains("HF_TOKEN=hf_abc\n\xff"));
  EXPECT_THAT(Command().environment, Not(Contains("HF_TOKEN=the host's")));
  EXPECT_THAT(Command().argv, Not(Contains(testing::HasSubstr("hf_abc"))));
  EXPECT_THAT(SecretsOf(rank_), ElementsAre("hf_abc\n\xff"));
}

TEST_F(RankSecretsTest, ARankWithSecretsLeavesNoCoreDump) {
  EXPECT_TRUE(Command().no_core);
  rank_.clear_secrets();
  rank_.mutable_spec()->clear_secrets();
  EXPECT_FALSE(Command().no_core);
}

TEST_F(RankSecretsTest, ANameThatTheJobDoesNotHaveIsIgnored) {
  Give("DP_RANK", "0");
  Give("PATH", "/elsewhere");
  EXPECT_THAT(Command().environment, Contains("DP_RANK=3"));
  EXPECT_THAT(Command().environment, Contains("PATH=/bin"));
}

TEST_F(RankSecretsTest, NoRankStartsWithoutItsSecrets) {
  rank_.mutable_spec()->add_secrets("API_KEY");
  EXPECT_EQ(Refusal(),
            "job 7: the coordinator sent no value of secret API_KEY; submit the job again");
  rank_.set_no_secrets("secret HF_TOKEN of job 7 cannot be opened");
  EXPECT_EQ(Refusal(), "secret HF_TOKEN of job 7 cannot be opened");
}

TEST_F(RankCommandTest, WhereAGpusPlansAreKeptIsPassedOnByTheDaemonAlone) {
  host_.environment.push_back("DP_CUDA_PLAN_CACHE=/var/cache/dp/cuda_plans");
  (*rank_.mutable_spec()->mutable_env())["DP_CUDA_PLAN_CACHE"] = "/elsewhere";
  EXPECT_THAT(Command().environment, Contains("DP_CUDA_PLAN_CACHE=/var/cache/dp/cuda_plans"));
  EXPECT_THAT(Command().environment, Not(Contains("DP_CUDA_PLAN_CACHE=/elsewhere")));
}

TEST_F(RankCommandTest, ThreadsComeFromTheJob) {
  rank_.mutable_spec()->set_threads_per_rank(8);
  EXPECT_THAT(Command().environment, Contains("OMP_NUM_THREADS=8"));
}

TEST_F(RankCommandTest, ThreadsThatWaitForEachOtherSoonSleep) {
  EXPECT_THAT(Command().environment, Contains("GOMP_SPINCOUNT=1000"));
}

TEST_F(RankCommandTest, TheHostOrTheJobMayLetThemSpin) {
  host_.environment.push_back("OMP_WAIT_POLICY=active");
  EXPECT_THAT(Command().environment, Not(Contains(StartsWith("GOMP_SPINCOUNT="))));
  host_.environment = {"GOMP_SPINCOUNT=7"};
  EXPECT_THAT(Command().environment, Contains("GOMP_SPINCOUNT=7"));
  host_.environment.clear();
  (*rank_.mutable_spec()->mutable_env())["OMP_WAIT_POLICY"] = "active";
  EXPECT_THAT(Command().environment, Not(Contains(StartsWith("GOMP_SPINCOUNT="))));
}

TEST_F(RankCommandTest, ATrainJobRunsTheTrainer) {
  EXPECT_THAT(Command().argv, ElementsAre("/opt/dp-trainer"));
}

TEST_F(RankCommandTest, ARankOnAGpuRunsTheTrainerForGpusAndSeesItsOwn) {
  host_.cuda_trainer = "/opt/dp-trainer-cuda";
  host_.facts = {.slots = 2, .devices = {"GPU-a", "GPU-b", "GPU-c", "GPU-d"}};
  rank_.set_slot(1);
  rank_.set_on_gpu(true);
  EXPECT_THAT(Command().argv, ElementsAre("/opt/dp-trainer-cuda"));
  EXPECT_THAT(Command().environment, Contains("CUDA_VISIBLE_DEVICES=GPU-b,GPU-d"));
  EXPECT_THAT(Command().environment, Contains("DP_DEVICE=cuda"));
  EXPECT_THAT(Command().environment, Not(Contains(StartsWith("DP_NO_GPU_BECAUSE"))));
}

TEST_F(RankCommandTest, ARankThatLeavesItsGpuAloneIsToldWhyWhereItsJobLeavesThatOpen) {
  host_.no_cuda_trainer = "dp-trainer-cuda does not exist";
  host_.facts.devices = {"GPU-a"};
  rank_.mutable_spec()->mutable_train()->set_device("auto");
  EXPECT_THAT(Command().argv, ElementsAre("/opt/dp-trainer"));
  EXPECT_THAT(Command().environment, Contains("DP_NO_GPU_BECAUSE=dp-trainer-cuda does not exist"));
  host_.cuda_trainer = "/opt/dp-trainer-cuda";
  EXPECT_THAT(Command().environment, Contains(StartsWith("DP_NO_GPU_BECAUSE=not every rank")));
  rank_.mutable_spec()->mutable_train()->set_device("cpu");
  EXPECT_THAT(Command().environment, Not(Contains(StartsWith("DP_NO_GPU_BECAUSE"))));
  rank_.mutable_spec()->mutable_train()->set_device("auto");
  host_.facts.devices.clear();
  EXPECT_THAT(Command().environment, Not(Contains(StartsWith("DP_NO_GPU_BECAUSE"))));
}

TEST_F(RankCommandTest, AJobWithoutAProgramIsRefused) {
  rank_.mutable_spec()->clear_train();
  const auto command = CommandFor(rank_, host_, {}, LogSpool("/state", KeyOf(rank_)));
  EXPECT_EQ(command.status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(RankCommandTest, AJobThatGivesNoGraceHasTheDefault) {
  EXPECT_EQ(FromProto(rank_).grace, absl::Seconds(30));
  rank_.mutable_spec()->mutable_grace()->set_nanos(500'000'000);
  EXPECT_EQ(FromProto(rank_).grace, absl::Milliseconds(500));
}

}  // namespace
}  // namespace dp::worker

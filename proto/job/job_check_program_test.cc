// Job files with a program, its ranks and its restarts.

#include "absl/strings/str_cat.h"
#include "proto/convert/time.h"
#include "proto/job/testing/parsed_job.h"

namespace dp {
namespace {

using ::testing::HasSubstr;

constexpr char kCommand[] = R"(apiVersion: dp/v1
kind: Job
name: ddp
command:
  argv: [python3, train.py, --epochs, "3"]
)";

TEST(CommandJobTest, DefaultsAreTorchrunsContractAndOneRank) {
  const v1::JobSpec spec = Parsed(kCommand).spec;
  EXPECT_EQ(spec.command().contract(), "torchrun");
  EXPECT_EQ(spec.command().store(), "program");
  EXPECT_EQ(spec.threads_per_rank(), 0);
  EXPECT_EQ(spec.command().on_isolation(), "stop");
  EXPECT_EQ(spec.command().nodes(), "");
  EXPECT_EQ(spec.ranks(), 1);
  EXPECT_EQ(CheckJob(Parsed(kCommand), Image28), absl::OkStatus());
}

TEST(CommandJobTest, NodesAndRanksOnEachMakeTheRanks) {
  EXPECT_EQ(Parsed(kCommand, {"command.nodes=2", "command.nprocPerNode=4"}).spec.ranks(), 8);
  EXPECT_EQ(Parsed(kCommand, {"command.nodes=2:5"}).spec.ranks(), 2);
  const v1::JobSpec spec = Parsed(kCommand, {"command.nprocPerNode=4"}).spec;
  EXPECT_EQ(spec.ranks(), 4);
  EXPECT_EQ(spec.command().nodes(), "1");
}

TEST(CommandJobTest, RanksThatMayBeSeveralMeetAtTheRelay) {
  for (const char* change : {"ranks=2", "command.nodes=2", "command.nodes=1:4",
                             "command.nprocPerNode=2", "command.nprocPerNode=gpu"})
    EXPECT_EQ(Parsed(kCommand, {change}).spec.command().store(), "relay") << change;
  EXPECT_EQ(Parsed(kCommand, {"command.nprocPerNode=1"}).spec.command().store(), "program");
  EXPECT_EQ(Parsed(kCommand, {"command.store=rank0"}).spec.command().store(), "rank0");
}

TEST(CommandJobTest, TextThatIsNotUtf8IsNamedWithItsPlace) {
  const auto error = [](auto change) {
    client::JobFile job = Parsed(kCommand);
    change(job.spec);
    return std::string(CheckJob(job, Image28).message());
  };
  EXPECT_THAT(error([](v1::JobSpec& spec) { spec.mutable_command()->set_argv(1, "a\xFFz"); }),
              HasSubstr("command.argv[1] is \"a\\377z\"; expected UTF-8"));
  EXPECT_THAT(error([](v1::JobSpec& spec) { (*spec.mutable_env())["A"] = "\xFF"; }),
              HasSubstr("env.A is \"\\377\"; expected UTF-8"));
  EXPECT_THAT(error([](v1::JobSpec& spec) { spec.mutable_command()->set_working_dir("/\xFF"); }),
              HasSubstr("command.workingDir is \"/\\377\"; expected UTF-8"));
}

TEST(CommandJobTest, WhatIsWrongIsNamedWithItsValue) {
  EXPECT_THAT(ErrorSetting("command.argv=[]", kCommand), HasSubstr("command.argv is missing"));
  EXPECT_THAT(ErrorSetting("command.argv=[a, \"b\\0\"]", kCommand),
              HasSubstr("command.argv[1] has a zero byte"));
  EXPECT_EQ(ErrorSetting("command.nodes=4:1", kCommand),
            "--set command.nodes: command.nodes is \"4:1\"; expected a number from 1 to 10000, or "
            "MIN:MAX as 1:4");
  EXPECT_EQ(
      ErrorSetting("command.nprocPerNode=gpus", kCommand),
      "--set command.nprocPerNode: command.nprocPerNode is \"gpus\"; expected 1 to 10000, gpu, "
      "cpu or auto");
  EXPECT_THAT(ErrorSetting("command.contract=horovod", kCommand),
              HasSubstr("expected torchrun, launch, tensorflow, jax, mpi, plain"));
  EXPECT_THAT(ErrorSetting("command.store=nfs", kCommand),
              HasSubstr("relay, rank0, direct, program"));
  EXPECT_THAT(ErrorSetting("command.maxRestarts=-1", kCommand), HasSubstr("0 to 1000"));
  EXPECT_THAT(ErrorSetting("command.workingDir=src", kCommand), HasSubstr("an absolute path"));
  EXPECT_THAT(ErrorSetting("command.argv=[a, " + std::string(131072, 'x') + "]", kCommand),
              HasSubstr("command.argv[1] takes 131072 bytes; an argument may take 131071"));
}

TEST(ElasticJobTest, TrainingSharesItsRanksAsAProgramDoes) {
  const v1::JobSpec spec = Parsed(kMinimal, {"train.nodes=2:4", "train.nprocPerNode=3"}).spec;
  EXPECT_EQ(spec.ranks(), 6);
  EXPECT_FALSE(spec.has_grow_after());
  const char* saves = "train.checkpoint={dir: /c, everySteps: 5}";
  EXPECT_EQ(FromProto(Parsed(kMinimal, {"train.nodes=2:4", saves}).spec.grow_after()),
            absl::Minutes(10));
  EXPECT_FALSE(Parsed(kMinimal, {"train.nodes=4", saves}).spec.has_grow_after());
}

TEST(ElasticJobTest, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(ErrorSetting("train.nodes=1:200"),
              HasSubstr("globalBatchSize is 128, less than one sample for each of 200 ranks"));
  EXPECT_THAT(ErrorSetting("train.nodes=4:1"), HasSubstr("train.nodes is \"4:1\"; expected"));
  EXPECT_EQ(ErrorSetting("growAfter=1h"),
            "--set growAfter: growAfter is given, but the job is not elastic; give nodes a range, "
            "as 1:4");
  const client::JobFile anew = Parsed(kMinimal, {"train.nodes=1:4", "growAfter=1h"});
  EXPECT_THAT(std::string(CheckJob(anew, Image28).message()), HasSubstr("begin anew"));
}

TEST(CommandJobTest, RanksThatDoNotAgreeAreRefused) {
  const client::JobFile job = Parsed(kCommand, {"ranks=3", "command.nodes=2"});
  EXPECT_THAT(std::string(CheckJob(job, Image28).message()),
              HasSubstr("ranks is 3, but command.nodes and command.nprocPerNode make 2"));
}

TEST(CommandJobTest, RanksThatWorkersSetAreNotGiven) {
  for (const std::string each : {"cpu", "gpu", "auto"}) {
    const client::JobFile job = Parsed(kCommand, {"ranks=3", "command.nprocPerNode=" + each});
    EXPECT_EQ(CheckJob(job, Image28).message(),
              "--set ranks: ranks is 3, but command.nprocPerNode is " + each +
                  ", which sets the ranks by the workers; leave ranks out, or give "
                  "command.nprocPerNode a number");
    EXPECT_EQ(CheckJob(Parsed(kCommand, {"command.nprocPerNode=" + each}), Image28),
              absl::OkStatus());
  }
}

TEST(CommandJobTest, ContractsWithoutAStoreMeetAtTheProgram) {
  EXPECT_EQ(Parsed(kCommand, {"ranks=2", "command.contract=mpi"}).spec.command().store(),
            "program");
}

TEST(RestartSpecTest, ByDefaultTheProgramsFailuresEndTheJobAndOthersDoNot) {
  const v1::RestartSpec restart = Parsed(kMinimal).spec.restart();
  EXPECT_EQ(restart.max_restarts(), 0);
  EXPECT_EQ(restart.infra(), 10);
  EXPECT_EQ(restart.hang(), 3);
  EXPECT_EQ(restart.startup(), 3);
  EXPECT_FALSE(restart.has_oom());
  EXPECT_EQ(restart.window().seconds(), 3600);
}

TEST(RestartSpecTest, ACommandsMaxRestartsIsTheSameUnderBothNames) {
  const v1::JobSpec by_torchruns = Parsed(kCommand, {"command.maxRestarts=4"}).spec;
  EXPECT_EQ(by_torchruns.restart().max_restarts(), 4);
  const v1::JobSpec by_dps = Parsed(kCommand, {"restart.maxRestarts=5"}).spec;
  EXPECT_EQ(by_dps.command().max_restarts(), 5);
  const client::JobFile both = Parsed(kCommand, {"command.maxRestarts=4", "restart.maxRestarts=5"});
  EXPECT_THAT(std::string(CheckJob(both, Image28).message()), HasSubstr("give one of them"));
}

TEST(RestartSpecTest, WhatIsWrongIsNamedWithItsValue) {
  EXPECT_THAT(ErrorSetting("restart.infra=1001"), HasSubstr("restart.infra is 1001"));
  EXPECT_THAT(ErrorSetting("restart.startup=11"), HasSubstr("0 to 10"));
  EXPECT_THAT(ErrorSetting("restart.window=0s"), HasSubstr("more than 0s"));
  EXPECT_THAT(ErrorSetting("restart.neverRetryExitCodes=[3, 0]"), HasSubstr("1 to 255"));
  EXPECT_THAT(ErrorSetting("train.onIsolation=maybe"), HasSubstr("stop, continue"));
}

}  // namespace
}  // namespace dp

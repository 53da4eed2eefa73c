#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "client/dpctl/testing/dpctl_test.h"
#include "client/dpctl/view/spec_text.h"
#include "client/job/job_file.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/job/job_defaults.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kJobFile[] = R"(apiVersion: dp/v1
kind: Job
name: small
env: {A: "1"}
train:
  seed: 12345678901234567890
  data: {dir: /data}
  model: {layers: [{flatten: {}}, {linear: {out: 10}}]}
  optimizer: {sgd: {learningRate: 0.1}}
)";

class SubmitTest : public DpctlTest {
 protected:
  SubmitTest() { std::ofstream(file_) << kJobFile; }
  ~SubmitTest() override { std::remove(file_.c_str()); }

  const std::string file_ = ::testing::TempDir() +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                            std::string(".yaml");
};

TEST_F(SubmitTest, TheJobGoesOutWithItsDefaults) {
  const Result result = Dpctl("submit " + file_ + " --set train.epochs=3");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "job 1 submitted\n");
  EXPECT_EQ(result.err,
            "follow:   dpctl logs -f 1\nstate:    dpctl describe 1\ncancel:   dpctl cancel 1\n");
  const v1::JobSpec& spec = coordinator_.jobs[1].spec();
  EXPECT_EQ(spec.train().epochs(), 3);
  EXPECT_EQ(spec.train().global_batch_size(), 128);
}

TEST_F(SubmitTest, RanksThatCannotBeCountedAreAnErrorOfTheJobFile) {
  const Result result = Dpctl("submit " + file_ + " --set train.nprocPerNode=gpu");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("train.nprocPerNode is gpu, but the job needs 1 worker, and "
                                    "only 0 of 0 are ready with a GPU (see dpctl workers)"));
  EXPECT_TRUE(coordinator_.jobs.empty());
}

TEST_F(SubmitTest, TheNameOfAJobIsItsNumber) {
  EXPECT_EQ(Dpctl("submit -o name " + file_).out, "1\n");
}

TEST_F(SubmitTest, ADryRunPrintsAJobFileThatMeansTheSame) {
  for (const std::string format : {"table", "json"}) {
    out_.str("");
    const Result result = Dpctl("submit --dry-run -o " + format + " " + file_);
    EXPECT_EQ(result.code, 0);
    EXPECT_TRUE(coordinator_.jobs.empty());
    auto original = client::ReadJobFile(file_);
    ASSERT_TRUE(original.ok());
    FillDefaults(original->source, original->spec);
    const auto printed = client::ParseJobFile(result.out, "printed");
    ASSERT_TRUE(printed.ok()) << printed.status() << '\n' << result.out;
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(printed->spec, original->spec))
        << result.out;
  }
}

constexpr char kWithDefaults[] = R"(apiVersion: dp/v1
kind: Job
name: small
ranks: 1
threadsPerRank: 1
env:
  A: 1
restart:
  maxRestarts: 0
  infra: 10
  hang: 3
  startup: 3
  window: 3600s
train:
  seed: 12345678901234567890
  epochs: 1
  maxSteps: 0
  globalBatchSize: 128
  data:
    dir: /data
    mean: 0
    std: 1
    dropLast: false
    kind: images
    context: 0
    vocabulary: 0
    classes: 0
    validation: 0
    channels: 0
    prefetchThreads: 0
    shuffle: true
  model:
    layers:
      - name: flatten0
        device: 0
        flatten:
          {}
      - name: linear1
        device: 0
        linear:
          in: 0
          out: 10
          initStd: 0
          bias: true
  optimizer:
    sgd:
      learningRate: 0.1
      momentum: 0
      weightDecay: 0
      nesterov: false
  backend: auto
  bucketCapMb: 25
  precision: float32
  device: auto
  onIsolation: continue
  clipNorm: 0
  batchSizePerRank: 0
  stepsPerEpoch: 0
  evaluateEvery: 1
  deterministic: true
memoryMibPerRank: 0
queue: default
priority: 0
hold: false
singleton: false
slots: any
preemptible: false
grace: 30s
detectWithin: 30s
)";

TEST_F(SubmitTest, ADryRunShowsAListOfOneNumberAsTheNumber) {
  const std::string dry = "submit --dry-run " + file_;
  EXPECT_THAT(Dpctl(dry + " --set train.data.mean=0.25").out, HasSubstr("    mean: 0.25\n"));
  out_.str("");
  EXPECT_THAT(Dpctl(dry + " -o json --set train.data.std=[0.5]").out, HasSubstr("\"std\": 0.5,"));
  out_.str("");
  EXPECT_THAT(Dpctl(dry + " --set train.data.mean=[0.25,0.5,1]").out,
              HasSubstr("    mean:\n      - 0.25\n      - 0.5\n      - 1\n"));
}

TEST_F(SubmitTest, ADryRunShowsDefaultsThatAreZero) {
  EXPECT_EQ(Dpctl("submit --dry-run " + file_).out, kWithDefaults);
}

TEST_F(SubmitTest, ADryRunOfACommandMeansTheSame) {
  std::ofstream(file_) << "{apiVersion: dp/v1, kind: Job, name: c, command: {argv: [a, '', '07']}, "
                          "env: {B: x, A: ''}}";
  auto original = client::ReadJobFile(file_);
  FillDefaults(original->source, original->spec);
  original->spec.mutable_command()->set_working_dir("/home/me");
  for (const std::string format : {"table", "json"}) {
    out_.str("");
    const auto printed =
        client::ParseJobFile(Dpctl("submit --dry-run -o " + format + " " + file_).out, "printed");
    ASSERT_TRUE(printed.ok()) << printed.status() << out_.str();
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(printed->spec, original->spec))
        << out_.str();
  }
}

TEST_F(SubmitTest, ADryRunDoesNotGuessTheRanksThatAreCountedLater) {
  std::ofstream(file_) << "{apiVersion: dp/v1, kind: Job, name: c, command: {argv: [a], "
                          "nprocPerNode: cpu}, env: {B: \"\\n ranks: 1,\"}}";
  for (const std::string format : {"table", "json"}) {
    out_.str("");
    const auto printed =
        client::ParseJobFile(Dpctl("submit --dry-run -o " + format + " " + file_).out, "printed");
    ASSERT_TRUE(printed.ok()) << printed.status() << out_.str();
    EXPECT_FALSE(printed->source.Given("ranks")) << out_.str();
    EXPECT_EQ(printed->spec.env().at("B"), "\n ranks: 1,");
  }
}

TEST_F(SubmitTest, AStoreThatTheContractLacksIsRefused) {
  const std::string job = "{apiVersion: dp/v1, kind: Job, name: c, ranks: 2, command: {argv: [a], ";
  std::ofstream(file_) << job << "contract: mpi, store: relay}}";
  EXPECT_EQ(Dpctl("submit " + file_).err,
            absl::StrCat("dpctl: ", file_,
                         ":1:94: command.store is \"relay\", but ranks of contract "
                         "mpi have no store that dp serves; leave the store out\n"));
  std::ofstream(file_) << job << "contract: mpi}}";
  EXPECT_EQ(Dpctl("submit " + file_).code, 0);
  EXPECT_EQ(coordinator_.jobs.at(1).spec().command().store(), "program");
}

TEST_F(SubmitTest, RelativePathsAreRefused) {
  for (const std::string verb : {"submit --dry-run ", "submit ", "run "}) {
    const Result result = Dpctl(verb + file_ + " --set train.output.weights=out.safetensors");
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err,
                HasSubstr("train.output.weights is \"out.safetensors\"; expected an abs"));
  }
  EXPECT_TRUE(coordinator_.jobs.empty());
}

TEST_F(SubmitTest, AnOverrideOfTheHeaderIsChecked) {
  Result result = Dpctl("submit --dry-run " + file_ + " --set apiVersion=dp/v2");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "dpctl: --set apiVersion: apiVersion is \"dp/v2\"; expected \"dp/v1\"\n");
  EXPECT_EQ(Dpctl("submit --dry-run " + file_ + " --set kind=Pod").code, 2);
}

TEST_F(SubmitTest, AWrongJobFileIsAUsageErrorWithItsPlace) {
  std::ofstream(file_, std::ios::app) << "rank: 2\n";
  const Result result = Dpctl("submit " + file_);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "dpctl: " + file_ + ":10:1: unknown field 'rank' in the job; did you mean 'ranks'?\n");
  EXPECT_TRUE(coordinator_.jobs.empty());
}

TEST_F(SubmitTest, LayersThatDoNotFitAreAUsageError) {
  const Result result = Dpctl("submit " + file_ + " --set train.model.layers[1].linear.in=100");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("layer 'linear1' (linear): in is 100, but 'flatten0' gives 784 features"));
}

TEST_F(SubmitTest, AMissingFileIsAUsageError) {
  const Result result = Dpctl("submit /no/such.yaml");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "dpctl: job file '/no/such.yaml' cannot be read: No such file or directory\n");
}

TEST_F(SubmitTest, ADirectoryIsNoJobFile) {
  EXPECT_EQ(Dpctl("submit /").err, "dpctl: job file '/' cannot be read: Is a directory\n");
}

TEST_F(SubmitTest, AFieldThatOnlySetHasPutThereIsNamedAsSuch) {
  for (const std::string set : {"train.model.layers[0].foo=1", "train.output.layers[0].foo=1"}) {
    const Result result = Dpctl("submit --dry-run " + file_ + " --set " + set);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("dpctl: --set train.")) << result.err;
    err_.str("");
  }
}

TEST_F(SubmitTest, WhatIsNoNumberGetsTheRangeOfItsField) {
  EXPECT_THAT(Dpctl("submit " + file_ + " --set priority=high").err,
              HasSubstr("expected a whole number from -1000 to 1000\n"));
  EXPECT_THAT(Dpctl("submit " + file_ + " --set train.epochs=all").err,
              HasSubstr("expected a whole number from 1 to 2147483647\n"));
}

TEST_F(SubmitTest, AProgramHasAName) {
  EXPECT_THAT(Dpctl("submit -- ").err, HasSubstr("the program's name, command.argv[0], is empty"));
}

TEST_F(SubmitTest, WeightsAreAFile) {
  const Result result = Dpctl("submit --dry-run " + file_ + " --set train.output.weights=/tmp/");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("train.output.weights is \"/tmp/\"; expected a file's path"));
}

}  // namespace
}  // namespace dp::ctl

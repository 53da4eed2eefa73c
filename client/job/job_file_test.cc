#include "client/job/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/testing/scratch_dir.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"

namespace dp::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Has every kind of field at least once.
constexpr char kJob[] = R"(apiVersion: dp/v1
kind: Job
name: small
ranks: 2
grace: 1m30s
env: {A: "1", B: two}
train:
  seed: 18446744073709551615
  epochs: 3
  data:
    dir: /data
    std: 0.5
    shuffle: false
  model:
    layers:
      - flatten:
      - linear: {out: 10, bias: false}
  optimizer:
    sgd: {learningRate: 1e-2}
)";

v1::JobSpec Message(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

void ExpectSame(const v1::JobSpec& actual, const v1::JobSpec& expected) {
  google::protobuf::util::MessageDifferencer differencer;
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(expected, actual)) << difference;
}

std::string Error(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const absl::Status status = ParseJobFile(text, "job.yaml", overrides).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

// The error for kJob with one piece of text replaced.
std::string ErrorWith(const std::string& piece, const std::string& by) {
  const std::string text = absl::StrReplaceAll(kJob, {{piece, by}});
  EXPECT_NE(text, kJob);
  return Error(text);
}

TEST(JobFileTest, YamlBecomesTheMessage) {
  const auto job = ParseJobFile(kJob, "job.yaml");
  ASSERT_TRUE(job.ok()) << job.status();
  ExpectSame(job->spec, Message(R"(
    api_version: "dp/v1" kind: "Job" name: "small" ranks: 2 grace { seconds: 90 }
    env { key: "A" value: "1" } env { key: "B" value: "two" }
    train {
      seed: 18446744073709551615 epochs: 3
      data { dir: "/data" std: 0.5 shuffle: false }
      model { layers { flatten {} } layers { linear { out: 10 bias: false } } }
      optimizer { sgd { learning_rate: 0.01 } }
    })"));
}

TEST(JobFileTest, JsonIsAcceptedToo) {
  const auto job = ParseJobFile(
      R"({"apiVersion": "dp/v1", "kind": "Job", "name": "j", "train": {"maxSteps": 5,
          "model": {"layers": [{"relu": {}}]}}})",
      "job.json");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.train().max_steps(), 5);
  EXPECT_TRUE(job->spec.train().model().layers(0).has_relu());
}

TEST(JobFileTest, AnUnknownFieldIsNamedWithPlaceAndNearestName) {
  EXPECT_EQ(ErrorWith("epochs: 3", "epocs: 3"),
            "job.yaml:9:3: unknown field 'epocs' in train; did you mean 'epochs'?");
  EXPECT_EQ(ErrorWith("out: 10", "outt: 10"),
            "job.yaml:17:18: unknown field 'outt' in train.model.layers[1].linear; did you mean "
            "'out'?");
  EXPECT_EQ(ErrorWith("ranks", "rnaks"),
            "job.yaml:4:1: unknown field 'rnaks' in the job; did you mean 'ranks'?");
  EXPECT_EQ(ErrorWith("learningRate", "learning_rate"),
            "job.yaml:19:11: unknown field 'learning_rate' in train.optimizer.sgd; did you mean "
            "'learningRate'?");
}

TEST(JobFileTest, AJobHasOneProgram) {
  EXPECT_THAT(Error(std::string(kJob) + "command: {argv: [true]}\n"),
              HasSubstr("'command' in the job excludes 'train'"));
}

TEST(JobFileTest, AFieldWithoutANearNameGetsTheList) {
  EXPECT_EQ(ErrorWith("out: 10", "neurons: 10"),
            "job.yaml:17:18: unknown field 'neurons' in train.model.layers[1].linear; there are "
            "in, out, bias, initStd");
}

TEST(JobFileTest, AWrongTypeNamesTheValueAndTheExpectedType) {
  EXPECT_EQ(ErrorWith("epochs: 3", "epochs: three"),
            "job.yaml:9:11: train.epochs is \"three\"; expected a whole number from 1 to "
            "2147483647");
  EXPECT_EQ(ErrorWith("epochs: 3", "epochs: \"3\""),
            "job.yaml:9:11: train.epochs is \"3\"; expected a whole number from 1 to "
            "2147483647");
  EXPECT_THAT(ErrorWith("epochs: 3", "epochs: 3.5"), HasSubstr("is 3.5; expected a whole number"));
  EXPECT_THAT(ErrorWith("epochs: 3", "epochs: 3000000000"), HasSubstr("is 3000000000; expected"));
  EXPECT_THAT(ErrorWith("epochs: 3", "epochs:"),
              StartsWith("job.yaml:9:3: train.epochs is empty; expected"));
  EXPECT_THAT(ErrorWith("ranks: 2", "ranks: [2]"), HasSubstr("ranks is a list; expected"));
  EXPECT_THAT(ErrorWith("std: 0.5", "std: .inf"), HasSubstr("expected a number"));
  EXPECT_THAT(ErrorWith("shuffle: false", "shuffle: no"),
              HasSubstr("train.data.shuffle is \"no\"; expected true or false"));
  EXPECT_THAT(ErrorWith("name: small", "name: {a: b}"),
              HasSubstr("name is a mapping; expected text"));
}

TEST(JobFileTest, ADurationNeedsItsUnit) {
  EXPECT_EQ(ErrorWith("1m30s", "90"),
            "job.yaml:5:8: grace is 90; expected a duration such as 10s, 5m or 1h30m");
  EXPECT_THAT(ErrorWith("1m30s", "inf"), HasSubstr("expected a duration"));
  EXPECT_THAT(ErrorWith("1m30s", "99999999999h"), HasSubstr("expected a duration"));
}

TEST(JobFileTest, AStructureOfAnotherKindIsAnError) {
  EXPECT_EQ(ErrorWith("{learningRate: 1e-2}", "0.1"),
            "job.yaml:19:10: train.optimizer.sgd is 0.1; expected a mapping of fields");
  EXPECT_THAT(ErrorWith("{A: \"1\", B: two}", "[A]"),
              HasSubstr("env is a list; expected a mapping"));
  EXPECT_THAT(ErrorWith("      - flatten:\n      - linear: {out: 10, bias: false}", "      relu"),
              HasSubstr("train.model.layers is \"relu\"; expected a list"));
  EXPECT_THAT(
      ErrorWith("      - flatten:\n", "      - flatten\n"),
      HasSubstr("layers[0] is \"flatten\"; expected a mapping of fields, such as flatten: {}"));
}

TEST(JobFileTest, AFieldGivenTwiceIsAnError) {
  EXPECT_EQ(ErrorWith("ranks: 2", "ranks: 2\nranks: 3"),
            "job.yaml:5:1: field 'ranks' in the job is given twice; keep one");
  EXPECT_THAT(ErrorWith("B: two", "A: two"), HasSubstr("field 'A' in env is given twice"));
}

TEST(JobFileTest, TwoOfAOneofAreAnError) {
  EXPECT_EQ(ErrorWith("- flatten:", "- {flatten: {}, relu: {}}"),
            "job.yaml:16:23: 'relu' in train.model.layers[0] excludes 'flatten', which is given, "
            "too; keep one");
}

TEST(JobFileTest, AnAlternativeWithoutFieldsMayBeItsName) {
  auto job = ParseJobFile(kJob, "job.yaml", {"train.strategy=ddp", "train.loss=mse"});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(job->spec.train().strategy().has_ddp());
  EXPECT_TRUE(job->spec.train().loss().has_mse());
  EXPECT_TRUE(job->source.Given("train.strategy.ddp"));
  EXPECT_EQ(ErrorWith("optimizer:\n    sgd: {learningRate: 1e-2}", "optimizer: adamax"),
            "job.yaml:18:14: train.optimizer is \"adamax\"; expected one of sgd, adamw, adam, or a "
            "mapping of one of them to its fields");
}

TEST(JobFileTest, WhatIsNoJobAtAllSaysSo) {
  EXPECT_THAT(Error(""), HasSubstr("job.yaml: the file is empty"));
  EXPECT_THAT(Error("# only a comment\n"), HasSubstr("the file is empty"));
  EXPECT_THAT(Error("a: [1, 2"), StartsWith("job.yaml:1:1: not YAML: "));
  EXPECT_THAT(Error("- a\n- b\n"), HasSubstr("the job is a list; expected a mapping of fields"));
  EXPECT_THAT(Error(absl::StrCat(kJob, "---\nkind: Job\n")), HasSubstr("a second document"));
  EXPECT_THAT(Error("{kind: Job},\n"), StartsWith("job.yaml:1:12: a second document"));
  EXPECT_THAT(Error(std::string(2000, '[')),
              AllOf(HasSubstr("not YAML"), HasSubstr("look for a quote")));
}

TEST(JobFileTest, AnotherVersionOrKindIsRefusedFirst) {
  EXPECT_EQ(ErrorWith("dp/v1", "dp/v2"),
            "job.yaml:1:13: apiVersion is \"dp/v2\"; expected \"dp/v1\"");
  EXPECT_EQ(ErrorWith("kind: Job", "kind: Pod\nspec: {}"),
            "job.yaml:2:7: kind is \"Pod\"; expected \"Job\"");
  EXPECT_EQ(ErrorWith("apiVersion: dp/v1\n", ""),
            "job.yaml: apiVersion is missing; add \"apiVersion: dp/v1\"");
}

TEST(JobFileTest, OverridesWinAndMakeWhatIsMissing) {
  const auto job = ParseJobFile(kJob, "job.yaml",
                                {"train.epochs=7", "train.output.weights=/w",
                                 "train.model.layers[1].linear.out=5", "env.C=x=y", "ranks=4"});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.train().epochs(), 7);
  EXPECT_EQ(job->spec.train().output().weights(), "/w");
  EXPECT_EQ(job->spec.train().model().layers(1).linear().out(), 5);
  EXPECT_EQ(job->spec.env().at("C"), "x=y");
  EXPECT_EQ(job->spec.ranks(), 4);
}

TEST(JobFileTest, AWrongOverrideIsShownAsOne) {
  EXPECT_EQ(Error(kJob, {"train.epocs=1"}),
            "--set train.epocs: unknown field 'epocs' in train; did you mean 'epochs'?");
  EXPECT_THAT(Error(kJob, {"train.epochs=many"}),
              StartsWith("--set train.epochs: train.epochs is \"many\"; expected a whole number"));
  EXPECT_THAT(Error(kJob, {"train.epochs"}), HasSubstr("expected path=value"));
  EXPECT_THAT(Error(kJob, {"train.epochs={"}),
              AllOf(HasSubstr("the value is not YAML"), HasSubstr("put it in quotes")));
  EXPECT_THAT(Error(kJob, {"train.model.layers[9].relu={}"}), HasSubstr("there is no element '9'"));
  EXPECT_THAT(Error(kJob, {"train.model.layers[9]={}"}),
              HasSubstr("no element '9'; the list has 2, counted from 0"));
  EXPECT_THAT(Error(kJob, {"ranks.x=1"}), HasSubstr("which has no parts; set it as a whole"));
  EXPECT_THAT(Error(kJob, {"train.model.layers[9].linear.out=3"}),
              HasSubstr("there is no element '9'; the list has "));
  EXPECT_THAT(Error(kJob, {"train.model.layers[0.linear.out=3"}), HasSubstr("expected path=value"));
}

TEST(JobFileTest, AFileThatIsNotThereIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(ReadJobFile("/no/such/file.yaml").status()));
  EXPECT_TRUE(absl::IsNotFound(ReadJobFile("/").status()));
}

// Each round changes some bytes of a valid file. The parser must return, whatever the bytes.
TEST(JobFileTest, AnEmptyFileAndOneThatIsTooLargeAreCalledThat) {
  const ScratchDir scratch;
  const std::string file = scratch.path() / "job.yaml";
  std::ofstream(file).close();
  EXPECT_THAT(ReadJobFile(file).status().message(), HasSubstr("the file is empty"));
  std::ofstream(file) << std::string(kSpecBytesMax + 1, ' ');
  EXPECT_THAT(ReadJobFile(file).status().message(), HasSubstr("larger than"));
}

TEST(JobFileTest, DamagedFilesNeverCrashTheParser) {
  uint64_t random = 42;
  SCOPED_TRACE(absl::StrCat("seed ", random));
  const std::string pieces[] = {"\t", "{",     "}",    "[",    "]",
                                ":",  "- ",    "\n",   "&a ",  "*a",
                                "|",  "!",     "\"",   "\xff", std::string(1, '\0'),
                                "~",  "---\n", "<<: ", "? "};
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = kJob;
    for (uint64_t edits = 1 + NextRandom(random) % 4; edits > 0; --edits) {
      const std::string& piece = pieces[NextRandom(random) % std::size(pieces)];
      text.replace(NextRandom(random) % text.size(), NextRandom(random) % 8, piece);
    }
    refused += !ParseJobFile(text, "job.yaml").ok();
  }
  EXPECT_GT(refused, 1000);
}

TEST(JobFileTest, AFieldOfTheJobThatStandsTooDeepIsShownItsPlace) {
  const auto job = ParseJobFile(
      "apiVersion: dp/v1\nkind: Job\nname: x\ncommand:\n  argv: [a]\n  env: {A: b}\n", "job.yaml");
  EXPECT_EQ(
      std::string(job.status().message()),
      "job.yaml:6:3: unknown field 'env' in command; 'env' is a field of the job itself: write "
      "it beside 'command'");
}

}  // namespace
}  // namespace dp::client

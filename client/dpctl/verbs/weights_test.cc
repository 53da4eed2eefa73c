#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/testing/scratch_dir.h"
#include "client/dpctl/testing/dpctl_test.h"
#include "proto/weights/safetensors.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;

class WeightsTest : public DpctlTest {
 protected:
  std::string Write(const std::string& name, const std::vector<float>& weight,
                    const std::string& bias = "bias") {
    const std::vector<float> one = {1};
    const std::string path = dir_.path() / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << EncodeSafetensors(
        {{"weight", {static_cast<int64_t>(weight.size())}, weight}, {bias, {1}, one}});
    return path;
  }

  dp::ScratchDir dir_;
};

TEST_F(WeightsTest, EqualFilesAreASuccess) {
  const std::string a = Write("a", {1, 2}), b = Write("b", {1, 2});
  const Result result = Dpctl("weights diff " + a + " " + b);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "all 2 tensors are equal, bit for bit\n");
}

TEST_F(WeightsTest, DifferencesAreATableAndTheCodeIsThatOfDiff) {
  const std::string a = Write("a", {1, 2}), b = Write("b", {1, 4}, "offset");
  const Result result = Dpctl("weights diff " + a + " " + b);
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out,
            "TENSOR  IN A   IN B   ELEMENTS  MAX ABSOLUTE  MAX RELATIVE\n"
            "bias    F32 1  -      -         -             -\n"
            "offset  -      F32 1  -         -             -\n"
            "weight  F32 2  F32 2  1         2             0.5\n");
  EXPECT_EQ(result.err, "3 of 3 tensors differ\n");
}

TEST_F(WeightsTest, NamesAreThoseOfTensorsThatDiffer) {
  const Result result = Dpctl("weights diff -o name " + Write("a", {1}) + " " + Write("b", {2}));
  EXPECT_EQ(result.out, "weight\n");
}

TEST_F(WeightsTest, JsonHasAllTensors) {
  const Result result = Dpctl("weights diff -o json " + Write("a", {1}) + " " + Write("b", {2}));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("\"equal\": false"));
  EXPECT_THAT(result.out, HasSubstr("\"kind\": \"equal\""));
  EXPECT_THAT(result.out, HasSubstr("\"maxAbsolute\": 1"));
}

TEST_F(WeightsTest, ACheckpointIsItsModelsFile) {
  const std::string a = Write("a", {1});
  Write("step/model.safetensors", {1});
  EXPECT_EQ(Dpctl("weights diff " + a + " " + std::string(dir_.path() / "step")).code, 0);
}

TEST_F(WeightsTest, AFileThatIsNoneIsAUsageErrorThatNamesIt) {
  const std::string a = Write("a", {1});
  const Result missing = Dpctl("weights diff " + a + " /no/such");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("/no/such"));
  std::ofstream(dir_.path() / "text") << "text";
  const Result text = Dpctl("weights diff " + a + " " + std::string(dir_.path() / "text"));
  EXPECT_EQ(text.code, 2);
  EXPECT_THAT(text.err, HasSubstr("text: no safetensors file"));
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return (std::stringstream() << file.rdbuf()).str();
}

TEST_F(WeightsTest, WhatIsPulledIsTheFileThatWasPushed) {
  const std::vector<float> weight = {1, 2};
  const std::string file = dir_.path() / "a", copy = dir_.path() / "b";
  std::ofstream(file, std::ios::binary) << EncodeSafetensors({{"z\"", {2}, weight}, {"a", {0}, {}}},
                                                             {{"steps", 7}}, {{"dp.model", "{}"}});
  EXPECT_EQ(Dpctl("weights push " + file + " gpt2 --step 5").out,
            "gpt2@1 has 3 tensors, 16 bytes\n");
  out_.str("");
  EXPECT_EQ(Dpctl("weights pull gpt2 " + copy).out, copy + " has gpt2@1: 3 tensors, 16 bytes\n");
  EXPECT_TRUE(Contents(copy) == Contents(file));
}

TEST_F(WeightsTest, AFileThatIsThereStays) {
  const std::string file = Write("a", {1});
  ASSERT_EQ(Dpctl("weights push " + file + " gpt2").code, 0);
  const Result result = Dpctl("weights pull gpt2 " + file);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr(file + " is there; remove it, or give another name"));
}

TEST_F(WeightsTest, ListsTheLatestOfEachSetOrAllVersionsOfOne) {
  const std::string file = Write("a", {1});
  for (const char* set : {"gpt2", "gpt2", "own"}) {
    ASSERT_EQ(Dpctl("weights push " + file + " " + set).code, 0);
  }
  coordinator_.parameters.GiveToJob("own", 7);
  out_.str("");
  EXPECT_EQ(Dpctl("weights ls -o name").out, "gpt2@2\n7@1\n");
  out_.str("");
  EXPECT_EQ(Dpctl("weights ls -o name gpt2").out, "gpt2@2\ngpt2@1\n");
  out_.str("");
  coordinator_.parameters.page = 1;
  EXPECT_EQ(Dpctl("weights ls -o name gpt2").out, "gpt2@2\ngpt2@1\n");
  out_.str("");
  EXPECT_EQ(Dpctl("weights ls -o name").out, "gpt2@2\n7@1\n");
  out_.str("");
  EXPECT_THAT(Dpctl("weights ls").out, HasSubstr("gpt2@2  -     2        8"));
}

TEST_F(WeightsTest, AVersionIsItsTensors) {
  ASSERT_EQ(Dpctl("weights push " + Write("a", {1, 2}) + " gpt2").code, 0);
  out_.str("");
  EXPECT_EQ(Dpctl("weights ls gpt2@1").out,
            "TENSOR  TYPE  SHAPE  BYTES\n"
            "weight  F32   2      8\n"
            "bias    F32   1      4\n");
  out_.str("");
  EXPECT_THAT(Dpctl("weights ls gpt2@1 -o json").out, HasSubstr("\"type\": \"F32\""));
  EXPECT_EQ(Dpctl("weights ls gpt2@9").code, 102);
}

TEST_F(WeightsTest, ANameOfNoSetIsThatOfAJob) {
  AddJob(7, "state: JOB_STATE_SUCCEEDED spec { name: 'mnist' }");
  ASSERT_EQ(Dpctl("weights push " + Write("a", {1}) + " own").code, 0);
  coordinator_.parameters.GiveToJob("own", 7);
  out_.str("");
  EXPECT_EQ(Dpctl("weights ls mnist -o name").out, "7@1\n");
  const Result none = Dpctl("weights ls cifar");
  EXPECT_EQ(none.code, 102);
  EXPECT_THAT(none.err, HasSubstr("no set of parameters and no job has the name 'cifar'"));
}

TEST_F(WeightsTest, ASetThatHasTheNameOfAJobIsTakenWithAWord) {
  AddJob(7, "state: JOB_STATE_SUCCEEDED spec { name: 'mnist' }");
  ASSERT_EQ(Dpctl("weights push " + Write("a", {1}) + " mnist").code, 0);
  EXPECT_EQ(Dpctl("weights ls mnist").err,
            "dpctl: mnist is a set of that name; give 7 for the weights of job 7\n");
}

TEST_F(WeightsTest, NobodyPushesTheWeightsOfAJob) {
  const Result result = Dpctl("weights push " + Write("a", {1}) + " 7");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("the weights of job 7 are those that it has trained; give"));
}

TEST_F(WeightsTest, APullEndsWithItsPatienceIfThereIsNoCoordinator) {
  clock_runs_ = true;
  coordinator_.calls_lost = 1'000'000;
  coordinator_.parameters.away = true;
  const Result result = Dpctl("weights pull 7 " + std::string(dir_.path() / "b"));
  EXPECT_EQ(result.code, 104);
}

TEST_F(WeightsTest, RemovesAVersionOrASetByItsOwnName) {
  AddJob(7, "state: JOB_STATE_SUCCEEDED spec { name: 'mnist' }");
  const std::string file = Write("a", {1});
  ASSERT_EQ(Dpctl("weights push " + file + " own").code, 0);
  coordinator_.parameters.GiveToJob("own", 7);
  const Result by_name = Dpctl("weights rm mnist");
  EXPECT_EQ(by_name.code, 102);
  EXPECT_THAT(by_name.err, HasSubstr("the weights of a job have its number"));
  out_.str("");
  EXPECT_EQ(Dpctl("weights rm 7").out, "7 is removed; 8 bytes are free\n");
  EXPECT_TRUE(coordinator_.parameters.sets.empty());
}

TEST_F(WeightsTest, WrongNamesOfSetsAreUsageErrors) {
  for (const char* set : {"No", "gpt2@", "gpt2@x", "gpt2@0", "@1", "0"}) {
    const Result result = Dpctl(absl::StrCat("weights ls ", set));
    EXPECT_EQ(result.code, 2) << set;
    EXPECT_THAT(result.err, HasSubstr("is no set of parameters")) << set;
  }
  const Result result = Dpctl("weights push " + Write("a", {1}) + " gpt2@3");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("leave @3 out"));
}

}  // namespace
}  // namespace dp::ctl

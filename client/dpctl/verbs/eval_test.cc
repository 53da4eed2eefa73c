#include <filesystem>
#include <fstream>
#include <string>

#include "base/testing/scratch_dir.h"
#include "client/dpctl/testing/inference_test.h"
#include "proto/weights/safetensors.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;

class EvalTest : public InferenceTest {
 protected:
  const v1::EvaluateRequest& request() { return Request<v1::EvaluateRequest>(); }
};

TEST_F(EvalTest, AFileIsEvaluatedWithoutACoordinator) {
  answer_ = R"({"loss": 0.25, "accuracy": 0.875, "samples": "8", "precision": "float32"})";
  const Result result = Dpctl("eval " + File("w.safetensors") + " --data images");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "samples             8\n"
            "loss                0.25\n"
            "accuracy            0.875\n");
  EXPECT_EQ(verb_, "evaluate");
  EXPECT_EQ(address_, "");
  EXPECT_EQ(request().weights().path(), File("w.safetensors"));
  EXPECT_EQ(request().places().data(), "/home/me/images");
  EXPECT_FALSE(request().weights().has_job());
}

TEST_F(EvalTest, JsonHasEveryDigit) {
  answer_ = R"({"loss": 0.33333333333333331, "perplexity": 1.1, "samples": "8",)"
            R"("confusionMatrix": ["1", "2", "3", "4"]})";
  const Result result = Dpctl("eval -o json " + File("w.safetensors"));
  EXPECT_THAT(result.out, HasSubstr("\"loss\": 0.33333333333333331,"));
  EXPECT_THAT(result.out, HasSubstr("\"perplexity\": 1.1,"));
  EXPECT_THAT(result.out, HasSubstr("\"accuracy\": null"));
  EXPECT_THAT(result.out, HasSubstr("[\n      1,\n      2\n    ],\n    [\n      3,"));
}

TEST_F(EvalTest, AJobGivesItsModelAndItsWeights) {
  AddTraining(7, File("w.safetensors"));
  EXPECT_EQ(Dpctl("eval 7").code, 0);
  EXPECT_EQ(request().weights().path(), File("w.safetensors"));
  EXPECT_EQ(request().weights().sha256(), "abc");
  EXPECT_EQ(request().weights().job().train().data().dir(), "/data");
}

TEST_F(EvalTest, AJobWithoutFinalWeightsGivesItsNewestCheckpoint) {
  v1::Job& job = AddTraining(7, "");
  job.set_state(v1::JOB_STATE_FAILED);
  job.mutable_checkpoint()->set_path(dir_.path());
  job.mutable_checkpoint()->set_sha256("def");
  EXPECT_EQ(Dpctl("eval 7").code, 0);
  EXPECT_EQ(request().weights().sha256(), "def");
}

TEST_F(EvalTest, FilesOfAnotherHostAreNamedWithTheRemedy) {
  AddTraining(7, "/no/such/file");
  const Result result = Dpctl("eval 7");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("job 7 left its weights in /no/such/file on worker w1 (host "
                                    "node1), and this host has no such file; run dpctl there"));
}

TEST_F(EvalTest, WeightsThatTheCoordinatorKeepsAreFetched) {
  AddTraining(7, "/no/such/file");
  std::ofstream(File("w.safetensors"), std::ios::binary) << EncodeSafetensors({});
  ASSERT_EQ(Dpctl("weights push " + File("w.safetensors") + " own").code, 0);
  coordinator_.parameters.GiveToJob("own", 7);
  EXPECT_EQ(Dpctl("eval 7").code, 0);
  EXPECT_THAT(request().weights().path(), ::testing::EndsWith("/job-7.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(request().weights().path()));
}

TEST_F(EvalTest, AFileThatAnotherJobHasReplacedIsNotTaken) {
  v1::Job& job = AddTraining(7, File("w.safetensors"));
  std::ofstream(File("w.safetensors"), std::ios::binary) << EncodeSafetensors({});
  job.mutable_weights()->mutable_modified_at()->set_seconds(1);
  EXPECT_EQ(Dpctl("eval 7").code, 0);
  EXPECT_EQ(request().weights().path(), File("w.safetensors"));  // the coordinator keeps none
  ASSERT_EQ(Dpctl("weights push " + File("w.safetensors") + " own").code, 0);
  coordinator_.parameters.GiveToJob("own", 7);
  EXPECT_EQ(Dpctl("eval 7").code, 0);
  EXPECT_THAT(request().weights().path(), ::testing::EndsWith("/job-7.safetensors"));
}

TEST_F(EvalTest, AJobThatRunsHasNoWeightsYet) {
  AddTraining(7, "").set_state(v1::JOB_STATE_RUNNING);
  EXPECT_THAT(Dpctl("eval 7").err, HasSubstr("job 7 is not over, and has no checkpoint on record"));
}

TEST_F(EvalTest, AJobWithoutWeightsOrModelSaysSo) {
  AddTraining(7, "");
  EXPECT_THAT(Dpctl("eval 7").err, HasSubstr("job 7 has left no weights; give it "));
  AddJob(8, "state: JOB_STATE_SUCCEEDED spec { command { argv: 'a' } }");
  EXPECT_THAT(Dpctl("eval 8").err, HasSubstr("job 8 runs a program of its own"));
  EXPECT_EQ(Dpctl("eval 9").code, 102);
}

TEST_F(EvalTest, AJobFileDescribesTheModelOfAnotherProgramsFile) {
  std::ofstream(File("job.yaml")) << "apiVersion: dp/v1\nkind: Job\nname: a\ntrain:\n"
                                     "  data: {dir: images}\n  model: {preset: cnn}\n"
                                     "  optimizer: {sgd: {learningRate: 0.1}}\n";
  EXPECT_EQ(Dpctl("eval " + File("w.safetensors") + " --model " + File("job.yaml")).code, 0);
  EXPECT_EQ(request().weights().job().train().model().preset(), "cnn");
  EXPECT_EQ(request().weights().job().train().data().dir(), "/home/me/images");
  EXPECT_EQ(Dpctl("eval " + File("w.safetensors") + " --model /no/such.yaml").code, 2);
}

TEST_F(EvalTest, ErrorsOfTheTrainerAreDpctls) {
  answer_ = R"({"error": {"code": 5, "message": "cannot read /data/t10k: no such file"}})";
  const Result result = Dpctl("eval " + File("w.safetensors"));
  EXPECT_EQ(result.code, 2);  // 102 is about jobs
  EXPECT_EQ(result.err, "dpctl: cannot read /data/t10k: no such file\n");
}

TEST_F(EvalTest, AFileThatIsNotThereIsAUsageError) {
  const Result result = Dpctl("eval no.safetensors");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("'no.safetensors' is no file of this host"));
}

TEST_F(EvalTest, AnAnswerOfAnotherReleaseIsNoEvaluation) {
  answer_ = "dp-trainer 0.0";
  EXPECT_THAT(Dpctl("eval " + File("w.safetensors")).err,
              HasSubstr("dp-trainer evaluate gives no answer of this release"));
}

}  // namespace
}  // namespace dp::ctl

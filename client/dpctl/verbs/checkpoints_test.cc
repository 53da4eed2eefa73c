// checkpoints, and --resume, which chooses one of them.

#include <fstream>

#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;

class CheckpointsTest : public DpctlTest {
 protected:
  CheckpointsTest() {
    AddJob(7, R"(state: JOB_STATE_FAILED spec { name: "cnn" ranks: 2 }
                 checkpoint { step: 400 path: "/c/step-400" }
                 weights { path: "/w.safetensors" sha256: "beef" bytes: 9 })");
    AddJob(8, R"(state: JOB_STATE_RUNNING spec { name: "none" ranks: 2 })");
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"(checkpoints { step: 400 generation: 2 path: "/c/step-400" sha256: "aa" bytes: 1000
                         at { seconds: 1767323040 } }
           checkpoints { step: 300 generation: 1 path: "/c/step-300" sha256: "bb" bytes: 1000
                         at { seconds: 1767322985 } })",
        &coordinator_.checkpoints[7]));
  }

  // The resume section of the job that `submit` makes with these flags.
  v1::ResumeSpec Submitted(const std::string& flags) {
    const std::string path = ::testing::TempDir() + "checkpoints_test.yaml";
    std::ofstream(path) << "apiVersion: dp/v1\nkind: Job\nname: more\ntrain:\n"
                           "  data: {dir: /data}\n  model: {preset: mlp}\n"
                           "  optimizer: {sgd: {learningRate: 0.1}}\n";
    last_ = Dpctl("submit " + path + flags);
    return last_.code == 0 ? coordinator_.jobs.rbegin()->second.spec().train().resume()
                           : v1::ResumeSpec();
  }

  Result last_;
};

TEST_F(CheckpointsTest, TheTableHasTheLatestFirst) {
  EXPECT_EQ(Dpctl("checkpoints cnn").out,
            "STEP  GENERATION  AGE   BYTES  PATH\n"
            "400   2           5s    1000   /c/step-400\n"
            "300   1           1m0s  1000   /c/step-300\n");
}

TEST_F(CheckpointsTest, TheBestOneSaysWhy) {
  v1::Checkpoint& best = *coordinator_.checkpoints[7].mutable_checkpoints(1);
  best.set_best("accuracy 0.91");
  *coordinator_.jobs[7].mutable_best_checkpoint() = best;
  EXPECT_EQ(Dpctl("checkpoints cnn").out,
            "STEP  GENERATION  AGE   BYTES  BEST           PATH\n"
            "400   2           5s    1000   -              /c/step-400\n"
            "300   1           1m0s  1000   accuracy 0.91  /c/step-300\n");
  out_.str("");
  EXPECT_THAT(Dpctl("describe 7").out,
              HasSubstr("  best:      step 300, accuracy 0.91, /c/step-300\n"));
}

TEST_F(CheckpointsTest, JsonAndNamesAreForPrograms) {
  EXPECT_THAT(Dpctl("checkpoints 7 -o json").out,
              HasSubstr("\"step\": 400,\n      \"generation\": 2,\n"
                        "      \"path\": \"/c/step-400\",\n      \"sha256\": \"aa\",\n"
                        "      \"bytes\": 1000,\n"));
  out_.str("");
  EXPECT_EQ(Dpctl("checkpoints 7 -o name").out, "7@400\n7@300\n");
}

TEST_F(CheckpointsTest, DescribeTellsTheLatestAndTheHashOfTheWeights) {
  const std::string text = Dpctl("describe 7").out;
  EXPECT_THAT(text, HasSubstr("Checkpoint:  step 400, /c/step-400\n"));
  EXPECT_THAT(text, HasSubstr("Weights:     /w.safetensors, not final: the job has not succeeded\n"
                              "  sha256:    beef\n"));
  out_.str("");
  EXPECT_THAT(Dpctl("describe 8 -o json").out, HasSubstr("\"weights\": null"));
}

TEST_F(CheckpointsTest, TheWeightsOfAJobThatHasSucceededAreFinal) {
  AddJob(10, R"(state: JOB_STATE_SUCCEEDED spec { name: "done" }
                weights { path: "/w.safetensors" sha256: "beef" bytes: 9 })");
  EXPECT_THAT(Dpctl("describe 10").out,
              HasSubstr("Weights:     /w.safetensors\n  sha256:    beef\n"));
  out_.str("");
  EXPECT_THAT(Dpctl("describe 10 -o json").out, HasSubstr("\"final\": true"));
  out_.str("");
  EXPECT_THAT(Dpctl("describe 7 -o json").out, HasSubstr("\"final\": false"));
}

TEST_F(CheckpointsTest, DescribeTellsWhyTheRanksAreAskedToLeave) {
  AddJob(9, R"(state: JOB_STATE_RUNNING spec { name: "moves" } handover: "worker w is drained")");
  EXPECT_THAT(Dpctl("describe 9").out, HasSubstr("Handover:    worker w is drained\n"));
}

TEST_F(CheckpointsTest, ResumeTakesTheLatestAndWhatToFallBackTo) {
  const v1::ResumeSpec resume = Submitted(" --resume cnn@latest");
  ASSERT_EQ(resume.from_size(), 2) << last_.err;
  EXPECT_EQ(resume.job(), 7u);
  EXPECT_EQ(resume.from(0).path(), "/c/step-400");
  EXPECT_EQ(resume.from(0).sha256(), "aa");
}

TEST_F(CheckpointsTest, ResumeTakesTheStepThatIsNamed) {
  const v1::ResumeSpec resume = Submitted(" --resume 7@300");
  ASSERT_EQ(resume.from_size(), 1) << last_.err;
  EXPECT_EQ(resume.from(0).step(), 300);
}

TEST_F(CheckpointsTest, ACheckpointThatIsNotThereIsNamedWithThoseThatAre) {
  Submitted(" --resume 7@350");
  EXPECT_EQ(last_.code, 102);
  EXPECT_THAT(last_.err, HasSubstr("no checkpoint of step 350; there are those of 400, 300"));
  Submitted(" --resume none@latest");
  EXPECT_EQ(last_.code, 102);
  EXPECT_THAT(last_.err, HasSubstr("job 8 has no checkpoint on record"));
}

TEST_F(CheckpointsTest, AnythingElseIsWrongUsage) {
  for (const char* flag : {" --resume 7", " --resume 7@first", " --resume 7@-1"}) {
    Submitted(flag);
    EXPECT_EQ(last_.code, 2) << flag;
  }
  EXPECT_EQ(Dpctl("submit --resume 7@latest -- python3 train.py").code, 2);
}

}  // namespace
}  // namespace dp::ctl

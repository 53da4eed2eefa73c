#include <string>

#include "client/dpctl/testing/inference_test.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PredictTest : public InferenceTest {
 protected:
  const v1::PredictRequest& request() { return Request<v1::PredictRequest>(); }
  Result Predict(const std::string& words) {
    return Dpctl("predict " + File("w.safetensors") + " " + words);
  }
};

constexpr char kClasses[] = R"({"predictions": [
  {"input": 0, "classes": [{"number": 1, "name": "dog", "probability": 0.75},
                           {"number": 0, "name": "cat", "probability": 0.25}]},
  {"input": 1, "sample": "0", "classes": [{"number": 0, "name": "cat", "probability": 1}]},
  {"input": 1, "sample": "1", "classes": [{"number": 1, "name": "dog", "probability": 1}]}]})";

TEST_F(PredictTest, ClassesAreATable) {
  answer_ = kClasses;
  const Result result = Predict("a.png b.npy --top 2");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "INPUT     CLASS  NAME  PROBABILITY\n"
            "a.png     1      dog   0.7500\n"
            "a.png     0      cat   0.2500\n"
            "b.npy[0]  0      cat   1.0000\n"
            "b.npy[1]  1      dog   1.0000\n");
  EXPECT_THAT(request().inputs(), ElementsAre("a.png", "b.npy"));
  EXPECT_EQ(request().classes_max(), 2);
  EXPECT_EQ(verb_, "predict");
}

TEST_F(PredictTest, NamesAreTheLikeliestClasses) {
  answer_ = kClasses;
  EXPECT_EQ(Predict("a.png b.npy -o name").out, "dog\ncat\ndog\n");
}

TEST_F(PredictTest, JsonHasOneObjectForEachSample) {
  answer_ = kClasses;
  const std::string out = Predict("a.png b.npy -o json").out;
  EXPECT_THAT(out, HasSubstr("\"input\": \"a.png\""));
  EXPECT_THAT(out, HasSubstr("\"probability\": 0.75"));
  EXPECT_THAT(out, HasSubstr("\"sample\": 1,"));
}

TEST_F(PredictTest, ValuesOfTargetsAreALine) {
  answer_ = R"({"predictions": [{"values": [1.5, -2]}]})";
  EXPECT_EQ(Predict("1,2,3").out, "INPUT  VALUES\n1,2,3  1.5 -2\n");
}

TEST_F(PredictTest, ATextGoesOnBehindItsBeginning) {
  answer_ = R"({"predictions": [{"text": "IGNlbGxhcg==", "tokens": 7}]})";
  const Result result = Predict("The --tokens 7 --temperature 0.5 --seed 3");
  EXPECT_EQ(result.out, "The cellar\n");
  EXPECT_EQ(request().tokens(), 7);
  EXPECT_EQ(request().temperature(), 0.5);
  EXPECT_EQ(request().seed(), 3u);
  EXPECT_THAT(Predict("The -o json").out, HasSubstr("\"text\": \" cellar\""));
}

TEST_F(PredictTest, ATextCannotMoveTheCursorOfATerminal) {
  answer_ = R"({"predictions": [{"text": "G1sySg==", "tokens": 1}]})";  // ESC [2J
  out_tty_ = true;
  EXPECT_EQ(Predict("a").out, "a\\x1b[2J\n");
}

TEST_F(PredictTest, InputsMayBeginWithADash) {
  answer_ = R"({"predictions": [{"values": [1]}]})";
  EXPECT_EQ(Predict("-- -1,2").code, 0);
  EXPECT_THAT(request().inputs(), ElementsAre("-1,2"));
}

TEST_F(PredictTest, FlagsHaveTheirRanges) {
  EXPECT_EQ(Predict("a --temperature -1").code, 2);
  EXPECT_EQ(Predict("a --top 0").code, 2);
  EXPECT_EQ(Dpctl("predict " + File("w.safetensors")).code, 2);
}

}  // namespace
}  // namespace dp::ctl

#include "worker/trainer/inference/predict.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "base/data/testing/png_file.h"
#include "base/data/text/testing/bpe_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/inference/sample_token.h"
#include "worker/trainer/testing/trained_files.h"

namespace dp::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::PredictRequest Asking(const TrainedFiles& files, const std::vector<std::string>& inputs) {
  v1::PredictRequest request;
  *request.mutable_weights() = files.weights();
  for (const std::string& input : inputs) request.add_inputs(input);
  request.set_classes_max(2);
  request.set_tokens(12);
  request.set_temperature(1);
  return request;
}

std::string ErrorOf(const v1::PredictRequest& request) {
  return std::string(PredictTrained(request).status().message());
}

class PredictRowsTest : public ::testing::Test {
 protected:
  PredictRowsTest()
      : files_(R"(
          data { kind: "csv" train: "$/a.csv" test: "$/a.csv" csv { labels: "c" } mean: 1 std: 2 }
          model { layers { linear {} } } optimizer { sgd { learning_rate: 0.1 } })") {
    files_.WriteText("a.csv", "x,y,c\n1,2,0\n3,5,1\n");
    files_.Write();
  }

  // The probability of the likeliest class for a row, by the definition.
  double Expected(float x, float y) {
    const float values[] = {(x - 1) / 2, (y - 1) / 2};
    std::vector<float> logits(10);
    const auto weights = *engine::ReadArray(*files_.model.device, files_.model.values->span());
    const auto& parameters = files_.model.layout.parameters;  // the bias, then the weight
    for (int i = 0; i < 10; ++i) {
      logits[i] = weights[parameters[0].offset + i];
      for (int j = 0; j < 2; ++j) {
        logits[i] += weights[parameters[1].offset + 2 * i + j] * values[j];
      }
    }
    const std::vector<double> all = Softmax(logits);
    return *std::max_element(all.begin(), all.end());
  }

  TrainedFiles files_;
};

TEST_F(PredictRowsTest, ARowOfNumbersIsNormalizedAndClassified) {
  const auto response = PredictTrained(Asking(files_, {"3,5"}));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->predictions_size(), 1);
  const auto& classes = response->predictions(0).classes();
  ASSERT_EQ(classes.size(), 2);
  EXPECT_NEAR(classes[0].probability(), Expected(3, 5), 1e-6);
  EXPECT_GE(classes[0].probability(), classes[1].probability());
}

TEST_F(PredictRowsTest, TablesAndArraysGiveTheSameAsRows) {
  const double row =
      PredictTrained(Asking(files_, {"3,5"}))->predictions(0).classes(0).probability();
  files_.WriteText("named.csv", "c,y,x\n0,5,3\n");
  files_.WriteText("plain.csv", "3,5\n3,5\n");
  const auto response =
      PredictTrained(Asking(files_, {files_.File("named.csv"), files_.File("plain.csv")}));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->predictions_size(), 3);
  for (const auto& one : response->predictions()) {
    EXPECT_EQ(one.classes(0).probability(), row);
  }
  EXPECT_EQ(response->predictions(2).input(), 1);
  EXPECT_EQ(response->predictions(2).sample(), 1);
}

TEST_F(PredictRowsTest, InputsThatDoNotFitAreNamed) {
  EXPECT_THAT(ErrorOf(Asking(files_, {"1,2,3"})),
              HasSubstr("1,2,3: a sample has the shape 3, but the model takes 2"));
  EXPECT_THAT(ErrorOf(Asking(files_, {"no.png"})),
              HasSubstr("no.png: is neither a file nor numbers with commas between them"));
  files_.WriteText("words", "some words");
  EXPECT_THAT(ErrorOf(Asking(files_, {files_.File("words")})), HasSubstr("words: is text; give"));
}

TEST(PredictImagesTest, AnImageIsResizedAndNamedByItsClass) {
  TrainedFiles files(R"(
    data { kind: "imageFolder" dir: "$" size: 2 size: 2 channels: 1 mean: 0.5 std: 0.5 }
    model { layers { flatten {} } layers { linear { out: 2 } } }
    optimizer { sgd { learning_rate: 0.1 } })");
  for (const char* place : {"train/cat/a.png", "train/dog/b.png", "test/cat/c.png"}) {
    files.WriteText(place, data::PngOf(4, 4, /*kind=*/0, std::string(16, 'd')));
  }
  files.Write();
  const auto response = PredictTrained(Asking(files, {files.File("test/cat/c.png")}));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->predictions(0).classes_size(), 2);
  const auto& first = response->predictions(0).classes(0);
  EXPECT_EQ(first.name(), first.number() == 0 ? "cat" : "dog");
}

TEST(PredictValuesTest, TargetsAreValues) {
  TrainedFiles files(R"(
    data { kind: "csv" train: "$/a.csv" test: "$/a.csv" csv { targets: "t" } }
    model { layers { linear { out: 1 } } } optimizer { sgd { learning_rate: 0.1 } })");
  files.WriteText("a.csv", "x,t\n1,2\n3,5\n");
  files.Write();
  const auto response = PredictTrained(Asking(files, {"0"}));
  ASSERT_TRUE(response.ok()) << response.status();
  const auto weights = *engine::ReadArray(*files.model.device, files.model.values->span());
  EXPECT_THAT(response->predictions(0).values(),
              ElementsAre(weights[files.model.layout.parameters[0].offset]));
}

constexpr char kGpt[] = R"(
  data { kind: "text" train: "$/text" context: 8 }
  model { layers { name: "e" embedding { features: 8 } } layers { positions {} }
          layers { linear { out: 24 } } layers { causal_attention { heads: 2 } }
          layers { linear {} } }
  optimizer { sgd { learning_rate: 0.1 } })";

TEST(ContinueTextTest, EqualSeedsGiveEqualTexts) {
  TrainedFiles files(kGpt);
  files.WriteText("text", std::string(200, 'a'));
  files.Write();
  v1::PredictRequest request = Asking(files, {"abc", "abcdefghijkl"});
  const auto response = PredictTrained(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->predictions_size(), 2);
  EXPECT_EQ(response->predictions(0).text().size(), 12u);
  EXPECT_EQ(PredictTrained(request)->predictions(1).text(), response->predictions(1).text());
  request.set_seed(1);
  EXPECT_NE(PredictTrained(request)->predictions(0).text(), response->predictions(0).text());
}

// The model of a sample with `context` tokens gives the same token after a short beginning.
TEST(ContinueTextTest, WithoutATemperatureTheLikeliestTokenFollows) {
  TrainedFiles files(kGpt);
  files.WriteText("text", std::string(200, 'a'));
  files.Write();
  std::vector<float> tokens = {'h', 'e', 'y', 0, 0, 0, 0, 0};
  tokens.resize(static_cast<size_t>(8 * files.rows()));
  const std::vector<int32_t> labels(tokens.size());
  const std::vector<int64_t> numbers(static_cast<size_t>(files.rows()));
  files.model.network->Forward(
      {.images = tokens, .labels = labels, .samples = numbers, .count = 1, .targets = {}},
      engine::Mode::kEvaluate);
  std::vector<float> logits(tokens.size() * 256);
  files.model.network->ReadLogits(absl::MakeSpan(logits));
  const float* third = logits.data() + 2 * 256;
  const auto likeliest = static_cast<char>(std::max_element(third, third + 256) - third);
  v1::PredictRequest request = Asking(files, {"hey"});
  request.set_temperature(0);
  request.set_tokens(1);
  EXPECT_EQ(PredictTrained(request)->predictions(0).text(), std::string(1, likeliest));
}

TEST(ContinueTextTest, TokensOfAnEncodingAreTextAgain) {
  const data::BpeFiles bpe = data::BpeFilesWith({"a b", "ab ab"});
  TrainedFiles files(absl::StrReplaceAll(
      kGpt, {{"context: 8", "context: 8 vocabulary: 258 bpe { vocab: '$/v' merges: '$/m' }"}}));
  files.WriteText("v", bpe.vocabulary);
  files.WriteText("m", bpe.merges);
  files.WriteText("text", std::string(200, 'x'));
  files.Write();
  v1::PredictRequest request = Asking(files, {"abab"});
  EXPECT_THAT(ErrorOf(request), HasSubstr("give the files of their encoding with --bpe-vocab"));
  request.mutable_places()->set_bpe_vocab(files.File("v"));
  request.mutable_places()->set_bpe_merges(files.File("m"));
  const auto response = PredictTrained(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_GE(response->predictions(0).text().size(), 12u);
  EXPECT_THAT(ErrorOf(Asking(files, {""})), HasSubstr("give the files"));
  request.set_inputs(0, "");
  EXPECT_THAT(ErrorOf(request), HasSubstr("the text is empty"));
  const data::BpeFiles larger = data::BpeFilesWith({"a b", "ab ab", "abab a"});
  files.WriteText("v", larger.vocabulary);
  files.WriteText("m", larger.merges);
  EXPECT_THAT(ErrorOf(request), HasSubstr("v has 259 tokens, but the model knows 258; give the "
                                          "files of the encoding"));
}

TEST(ContinueTextTest, AModelThatSeesLaterTokensCannotGoOn) {
  TrainedFiles files(absl::StrReplaceAll(kGpt, {{"causal_attention {", "attention {"}}));
  files.WriteText("text", std::string(200, 'a'));
  files.Write();
  EXPECT_THAT(ErrorOf(Asking(files, {"a"})), HasSubstr("the model attends to later tokens"));
}

TEST(DrawTokenTest, DrawsInProportionToTheProbabilities) {
  engine::Generator random(7);
  const std::vector<float> logits = {0, std::log(3.0f), -1e9f};
  int seconds = 0;
  for (int i = 0; i < 4000; ++i) {
    const int token = DrawToken(logits, 1, random);
    ASSERT_LT(token, 2);
    seconds += token;
  }
  EXPECT_NEAR(seconds / 4000.0, 0.75, 0.03);
  EXPECT_EQ(DrawToken(std::vector<float>{1, 2, 2}, 0, random), 1);
}

TEST(DrawTokenTest, ASmallTemperatureDrawsTheLikeliest) {
  engine::Generator random(7);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(DrawToken(std::vector<float>{0, 1, 0.5f}, 0.01, random), 1);
  }
}

}  // namespace
}  // namespace dp::trainer

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "dp/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/engine/floats_of.h"
#include "worker/library/testing/thrown.h"

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::FloatsOf;
using model::Conv2d;
using model::Dropout;
using model::Embedding;
using model::Flatten;
using model::LayerSpec;
using model::Linear;
using model::Relu;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> GradientOf(Network& network, size_t parameter) {
  const auto floats = FloatsOf(network.parameters()[parameter].gradient.value());
  return {floats.begin(), floats.end()};
}
void Fill(Network& network, float value) {
  for (const Parameter& parameter : network.parameters()) {
    for (float& one : FloatsOf(parameter.values)) one = value;
  }
}

// Two inputs, two classes; all weights are zero, so every class has the chance 1/2.
class TwoClasses : public ::testing::Test {
 protected:
  TwoClasses() { Fill(network_, 0); }

  Network network_{{{"", Linear{.out = 2}}}, {.input = {2}, .batch_size = 2, .threads = 1}};
  const std::vector<float> sample_ = {1, 2};
  const std::vector<int32_t> label_ = {0};
};

// A batch norm's running statistics are no parameters, and follow the batches that went back.
TEST(NetworkTest, EvaluationTakesTheRunningStatisticsOfTheBatches) {
  Network network({{"", model::BatchNorm{.momentum = 1}}, {"", Linear{.out = 2}}},
                  {.input = {1}, .batch_size = 2, .threads = 1});
  EXPECT_EQ(network.parameters().size(), 4u);
  const std::vector<float> batch = {1, 3};
  const std::vector<int32_t> labels = {0, 1};
  const std::vector<float> before = network.predict(batch);
  for (const double scale : {1.0, 0.25}) {
    network.forward(batch, labels);
    network.backward(nullptr, scale);
    // Mean 2 and variance 2, which has n - 1 below: the two outputs lie around that of the mean.
    const std::vector<float> mean = network.predict(std::vector<float>{2, 2});
    const std::vector<float> after = network.predict(batch);
    EXPECT_NEAR((after[0] + after[2]) / 2, mean[0], 1e-6);
    EXPECT_NEAR(std::abs(after[2] - after[0]) * std::sqrt(2.0f), std::abs(before[2] - before[0]),
                1e-4);
  }
}

TEST_F(TwoClasses, TheGradientIsThatOfTheMeanLoss) {
  const std::vector<float> inputs = {1, 2, 3, -4};
  const std::vector<int32_t> labels = {0, 1};
  const Score score = network_.forward(inputs, labels);
  EXPECT_NEAR(score.loss, std::log(2.0), 1e-6);
  EXPECT_EQ(score.labels, 2);
  EXPECT_EQ(score.correct, 1);  // of equal outputs the first counts
  network_.backward();
  // ((1, 2) (-1/2, 1/2) + (3, -4) (1/2, -1/2)) / 2
  EXPECT_THAT(GradientOf(network_, 0), ElementsAre(0.5f, -1.5f, -0.5f, 1.5f));
  EXPECT_THAT(GradientOf(network_, 1), ElementsAre(0, 0));
}

TEST_F(TwoClasses, ABatchWithFewerSamplesIsWhole) {
  network_.forward(sample_, label_);
  network_.backward();
  EXPECT_THAT(GradientOf(network_, 0), ElementsAre(-0.5f, -1.0f, 0.5f, 1.0f));
  EXPECT_THAT(GradientOf(network_, 1), ElementsAre(-0.5f, 0.5f));
}

TEST_F(TwoClasses, BackwardAddsAndScales) {
  for (const double scale : {1.0, 3.0}) {
    network_.forward(sample_, label_);
    network_.backward(nullptr, scale);
  }
  EXPECT_THAT(GradientOf(network_, 1), ElementsAre(-2.0f, 2.0f));
  network_.zero_grad();
  EXPECT_THAT(GradientOf(network_, 1), ElementsAre(0, 0));
}

TEST_F(TwoClasses, AMovedGradientKeepsWhatItHeld) {
  std::vector<float> weight(4), bias(2);
  network_.forward(sample_, label_);
  network_.backward();
  EXPECT_TRUE(network_.move_gradient(1, bias));
  EXPECT_TRUE(network_.move_gradient(0, weight));
  EXPECT_THAT(bias, ElementsAre(-0.5f, 0.5f));
  network_.forward(sample_, label_);
  network_.backward();
  EXPECT_THAT(weight, ElementsAre(-1.0f, -2.0f, 1.0f, 2.0f));
  EXPECT_EQ(network_.parameters()[0].gradient->data, weight.data());
  EXPECT_EQ(ErrorOf([&] { network_.move_gradient(0, bias); }).kind(), ErrorKind::kInvalidArgument);
}

TEST_F(TwoClasses, AGradientDoesNotMoveToNull) {
  const MutableElements null(nullptr, 4, DataType::kFloat32);
  const DistError error = ErrorOf([&] { network_.move_gradient(0, null); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_STREQ(error.what(),
               "the address of the memory for the gradient of parameter 0 is null; give memory of "
               "4 floats");
}

TEST_F(TwoClasses, EachBackwardNeedsAForwardOfItsOwn) {
  const auto backward = [&] { network_.backward(); };
  EXPECT_EQ(ErrorOf(backward).kind(), ErrorKind::kWrongState);
  network_.forward(sample_, label_);
  network_.evaluate(sample_, label_);
  EXPECT_THAT(ErrorOf(backward).what(), HasSubstr("backward needs a forward before it"));
  network_.forward(sample_, label_);
  network_.backward();
  EXPECT_EQ(ErrorOf(backward).kind(), ErrorKind::kWrongState);
}

TEST_F(TwoClasses, OutputsComeBeforeSoftmax) {
  FloatsOf(network_.parameters()[1].values)[1] = 3;
  EXPECT_THAT(network_.predict(sample_), ElementsAre(0, 3));
  EXPECT_EQ(network_.evaluate(sample_, label_).correct, 0);
}

TEST_F(TwoClasses, ABatchThatDoesNotFitIsAnError) {
  const auto why = [&](const std::vector<float>& inputs, const std::vector<int32_t>& labels) {
    const DistError error = ErrorOf([&] { network_.forward(inputs, labels); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return std::string(error.what());
  };
  EXPECT_EQ(why({}, {}), "the batch has 0 values; give 1 to 2 samples of 2 values");
  EXPECT_EQ(why({1, 2, 3}, {0}), "the batch has 3 values; give 1 to 2 samples of 2 values");
  EXPECT_EQ(why(std::vector<float>(6), {0, 0, 0}),
            "the batch has 6 values; give 1 to 2 samples of 2 values");
  EXPECT_EQ(why({1, 2}, {0, 1}), "the batch has 2 labels for 1 samples; give 1");
  EXPECT_EQ(why({1, 2}, {2}), "label 0 is 2; the model's labels are 0 to 1");
  EXPECT_EQ(why({1, 2, 3, 4}, {0, -1}), "label 1 is -1; the model's labels are 0 to 1");
}

TEST_F(TwoClasses, AnotherThreadIsTurnedAway) {
  std::jthread([&] {
    EXPECT_THAT(ErrorOf([&] { network_.forward(sample_, label_); }).what(),
                HasSubstr("another thread has made the network"));
  }).join();
}

TEST(NetworkTest, ParametersHavePyTorchsNamesInTheOrderOfTheLayers) {
  Network network({{"", Conv2d{.out = 3, .kernel = 3}},
                   {"", Relu{}},
                   {"", Flatten{}},
                   {"head", Linear{.out = 4}}},
                  {.input = {2, 5, 5}});
  std::string described;
  for (const Parameter& parameter : network.parameters()) {
    described += parameter.name;
    for (const int64_t extent : parameter.shape) described += ' ' + std::to_string(extent);
    described += '\n';
  }
  EXPECT_EQ(described, "conv2d0.weight 3 2 3 3\nconv2d0.bias 3\nhead.weight 4 27\nhead.bias 4\n");
  EXPECT_EQ(network.classes(), 4);
}

TEST(NetworkTest, EachParameterIsReadyOnceAndTheLastLayersFirst) {
  Network network({{"", Linear{.out = 3}}, {"", Relu{}}, {"", Linear{.out = 2, .bias = false}}},
                  {.input = {2}});
  network.forward(std::vector<float>{1, 1}, std::vector<int32_t>{1});
  std::vector<size_t> ready;
  network.backward([&](size_t parameter) { ready.push_back(parameter); });
  EXPECT_THAT(ready, ElementsAre(2, 1, 0));
}

TEST(NetworkTest, DropoutIsOfTrainingAndOfItsSeed) {
  const auto make = [](uint64_t seed) {
    return Network({{"", Dropout{.p = 0.5}}, {"", Linear{.out = 2}}},
                   {.input = {64}, .seed = seed, .threads = 1});
  };
  const std::vector<float> inputs(64, 1);
  const std::vector<int32_t> labels = {0};
  Network one = make(1), same = make(1);
  const double first = one.forward(inputs, labels).loss;
  EXPECT_EQ(same.forward(inputs, labels).loss, first);
  EXPECT_NE(one.forward(inputs, labels).loss, first);
  EXPECT_EQ(one.evaluate(inputs, labels).loss, same.evaluate(inputs, labels).loss);
  EXPECT_EQ(one.evaluate(inputs, labels).loss, one.evaluate(inputs, labels).loss);
}

TEST(NetworkTest, ATextHasALabelForEachToken) {
  Network network({{"", Embedding{.vocabulary = 5, .features = 4}}, {"", Linear{.out = 5}}},
                  {.input = {3}, .batch_size = 2, .threads = 1});
  Fill(network, 0);
  const std::vector<float> tokens = {0, 1, 2, 4, 3, 2};
  const Score score = network.forward(tokens, std::vector<int32_t>{1, 2, 4, 3, 2, 0});
  EXPECT_NEAR(score.loss, std::log(5.0), 1e-6);
  EXPECT_EQ(score.labels, 6);
  EXPECT_EQ(network.predict(tokens).size(), 30u);
  for (const float wrong : {-1.0f, 5.0f, 0.5f, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THAT(ErrorOf([&] {
                  network.predict(std::vector<float>{0, wrong, 0});
                }).what(),
                HasSubstr("; tokens are whole numbers from 0 to 4"))
        << wrong;
  }
}

TEST(NetworkTest, AModelOrOptionThatDoesNotFitIsAnError) {
  const auto why = [](std::vector<LayerSpec> layers, NetworkOptions options,
                      ErrorKind kind = ErrorKind::kInvalidArgument) {
    const DistError error = ErrorOf([&] { Network(std::move(layers), options); });
    EXPECT_EQ(error.kind(), kind);
    return std::string(error.what());
  };
  const LayerSpec linear = {"", Linear{.out = 2}};
  EXPECT_EQ(why({}, {.input = {2}}), "the model has no layers");
  EXPECT_EQ(why({{"", Linear{.in = 3, .out = 2}}}, {.input = {2}}),
            "layer 'linear0' (linear): in is 3, but the data gives 2 features");
  EXPECT_THAT(why({{"", Conv2d{.out = 2, .kernel = 3}}}, {.input = {1, 4, 4}}),
              HasSubstr("the last layer 'conv2d0' (conv2d) gives 2x2x2; let a flatten follow"));
  EXPECT_THAT(why({linear}, {}), HasSubstr("input is {}; give the shape of a sample"));
  EXPECT_THAT(why({linear}, {.input = {2, 0}}), HasSubstr("input is {2, 0}"));
  EXPECT_THAT(why({{"", Flatten{}}, linear}, {.input = {int64_t{1} << 32, int64_t{1} << 32, 1}}),
              HasSubstr("has more than 268435456 values"));
  EXPECT_EQ(why({linear}, {.input = {2}, .batch_size = 0}), "batch_size is 0; give 1 or more");
  EXPECT_THAT(why({linear}, {.input = {2}, .threads = -1}), HasSubstr("threads is -1"));
  EXPECT_EQ(why({linear}, {.input = {2}, .device = "cuda:0"}, ErrorKind::kUnsupported),
            "device 'cuda:0' is not in this release; give 'cpu'");
}

}  // namespace
}  // namespace dp::distributed

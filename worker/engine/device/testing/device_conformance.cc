#include "worker/engine/device/testing/device_conformance.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "worker/engine/nn/gradient_norm.h"
#include "worker/engine/nn/moving_average.h"

namespace dp::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsNan;

constexpr float kStep = 1.0f / 1024;
constexpr double kSlopeTolerance = 0.02;

void ExpectImageGradientsAreSlopes(const std::vector<model::LayerSpec>& specs,
                                   const DeviceUnderTest& device) {
  Bench(device, ImageModel(specs, kSmallImage)).ExpectGradientsAreSlopes(kStep, kSlopeTolerance);
}

Bench SmallBench(const DeviceUnderTest& device) {
  return Bench(device, ImageModel(SmallCnn(), kSmallImage));
}

// Steps with two parameters that have options of their own.
void ExpectGroupsToBeHeeded(const DeviceUnderTest& device, const OptimizerOptions& options) {
  Bench bench(device, ImageModel(SmallCnn(), kSmallImage)),
      plain(device, ImageModel(SmallCnn(), kSmallImage));
  ParameterLayout layout = bench.layout();
  layout.parameters[0].options.frozen = true;
  layout.parameters[1].options.learning_rate_factor = 0.5;
  const std::vector<float> begin = bench.Values();
  const std::vector<float> gradients = bench.ForwardGradients();
  plain.ForwardGradients();
  const auto optimizer =
      *bench.device().MakeOptimizer(options, layout, bench.values(), bench.gradients());
  const auto plain_optimizer = *plain.device().MakeOptimizer({options.update}, plain.layout(),
                                                             plain.values(), plain.gradients());
  optimizer->Step({.number = 1});
  plain_optimizer->Step({.number = 1});
  const std::vector<float> values = bench.Values(), expected = plain.Values();
  for (size_t p = 0; p < layout.parameters.size(); ++p) {
    const Parameter& parameter = layout.parameters[p];
    const float share = p == 0 ? 0.0f : p == 1 ? 0.5f : 1.0f;
    for (int64_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
      const float moved = (expected[i] - begin[i]) * share;
      if (p == 0) {
        ASSERT_EQ(values[i], begin[i]);
      }
      ASSERT_NEAR(values[i], begin[i] + moved, 1e-6 + 1e-4 * std::abs(moved));
    }
  }
  const Parameter& frozen = layout.parameters[0];
  std::vector<float> counted = gradients;
  std::fill_n(counted.begin() + frozen.offset, frozen.size, 0.0f);
  EXPECT_FLOAT_EQ(optimizer->gradient_norm(), GradientNorm({{0, layout.size}}, counted));
}

// The norm to clip to is out of reach.
TEST_P(DeviceConformance, AnAverageFollowsTheValues) {
  Bench bench = SmallBench(GetParam());
  const auto optimizer =
      *bench.device().MakeOptimizer({SgdOptions{.learning_rate = 0.1}, 0, /*average_decay=*/0.75},
                                    bench.layout(), bench.values(), bench.gradients());
  ASSERT_EQ(optimizer->state().size(), 2u);
  const OptimizerState average = optimizer->state().back();
  EXPECT_EQ(average.name, kAverageName);
  std::vector<float> expected(bench.layout().size);
  for (int step = 1; step <= 3; ++step) {
    bench.ForwardGradients();
    optimizer->Step({.number = step});
    UpdateAverage(0.75, /*first=*/step == 1, bench.Values(), absl::MakeSpan(expected));
    EXPECT_EQ(*ReadArray(bench.device(), average.values), expected) << "step " << step;
  }
}

TEST_P(DeviceConformance, ParametersHaveOptionsOfTheirOwn) {
  ExpectGroupsToBeHeeded(GetParam(), {SgdOptions{.learning_rate = 0.1, .momentum = 0.9f}, 1e6});
  ExpectGroupsToBeHeeded(GetParam(), {AdamWOptions{.learning_rate = 0.01, .weight_decay = 0}, 1e6});
}

TEST_P(DeviceConformance, GradientsOfSeveralBackwardsAddUp) {
  const auto device = *GetParam().open();
  const auto from = *device->Allocate(5), sum = *device->Allocate(5);
  device->Write({1, 2, 3, 4, 5}, from->span());
  device->Write({9, 9, 9, 9, 9}, sum->span());
  device->Accumulate(from->span(), /*first=*/true, sum->span());
  device->Accumulate(from->span().first(3), /*first=*/false, sum->span().first(3));
  EXPECT_EQ(*ReadArray(*device, sum->span()), (std::vector<float>{2, 4, 6, 4, 5}));
}

TEST_P(DeviceConformance, GradientsOfAConvolutionalModelAreTheSlopesOfTheLoss) {
  ExpectImageGradientsAreSlopes(SmallCnn(), GetParam());
}

TEST_P(DeviceConformance, GradientsFlowThroughAReluAnywhere) {
  ExpectImageGradientsAreSlopes({{"", model::Relu{}},
                                 {"", model::Conv2d{.out = 4, .kernel = 3}},
                                 {"", model::MaxPool2d{.kernel = 3, .stride = 2}},
                                 {"", model::Relu{}},
                                 {"", model::Flatten{}},
                                 {"", model::Relu{}},
                                 {"", model::Linear{.out = 3, .bias = false}}},
                                GetParam());
}

TEST_P(DeviceConformance, GradientsFlowThroughWindowsThatOverlapAfterARelu) {
  ExpectImageGradientsAreSlopes({{"", model::Conv2d{.out = 4, .kernel = 3}},
                                 {"", model::Relu{}},
                                 {"", model::MaxPool2d{.kernel = 3, .stride = 1}},
                                 {"", model::Flatten{}},
                                 {"", model::Linear{.out = 3}}},
                                GetParam());
}

TEST_P(DeviceConformance, GradientsFollowTheDropoutMaskOfTheirStep) {
  ExpectImageGradientsAreSlopes({{"", model::Conv2d{.out = 4, .kernel = 3}},
                                 {"", model::Dropout{0.5}},
                                 {"", model::Flatten{}},
                                 {"", model::Dropout{0.2}},
                                 {"", model::Linear{.out = 3}}},
                                GetParam());
}

TEST_P(DeviceConformance, GradientsFlowRoundLayersOfImages) {
  ExpectImageGradientsAreSlopes({{"a", model::Conv2d{.out = 2, .kernel = 3, .padding = 1}},
                                 {"b", model::Relu{}},
                                 {"", model::Conv2d{.out = 2, .kernel = 1}},
                                 {"", model::Add{"a"}},
                                 {"c", model::Add{"b"}},
                                 {"", model::Flatten{}},
                                 {"", model::LayerNorm{}},
                                 {"", model::Linear{.out = 3}}},
                                GetParam());
}

TEST_P(DeviceConformance, GradientsFlowThroughParallelBranches) {
  ExpectImageGradientsAreSlopes({{"stem", model::Conv2d{.out = 3, .kernel = 3, .padding = 1}},
                                 {"left", model::Gelu{}},
                                 {"", model::Conv2d{.out = 3, .kernel = 1}, "stem"},
                                 {"sum", model::Add{"left"}},
                                 {"", model::Gelu{}},
                                 {"", model::Add{"sum"}},
                                 {"", model::Flatten{}},
                                 {"", model::Linear{.out = 3}}},
                                GetParam());
}

TEST_P(DeviceConformance, GradientsBecomeReadyInLayoutOrder) {
  Bench bench = SmallBench(GetParam());
  bench.Forward();
  EXPECT_THAT(bench.Backward(), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(bench.layout().parameters.size(), 7u);
}

TEST_P(DeviceConformance, AGradientIsCompleteWhenItIsSaidToBeReady) {
  Bench bench = SmallBench(GetParam());
  const std::vector<float> expected = bench.ForwardGradients();
  bench.SetGradients(NAN);
  bench.Forward();
  bench.BackwardThen([&](int index) {
    const Parameter& p = bench.layout().parameters[index];
    std::vector<float> gradient(p.size);
    bench.device().Read(bench.gradients().subspan(p.offset, p.size), absl::MakeSpan(gradient));
    for (int64_t i = 0; i < p.size; ++i) ASSERT_EQ(gradient[i], expected[p.offset + i]) << p.name;
  });
}

TEST_P(DeviceConformance, PaddedRowsAddNothing) {
  Bench bench = SmallBench(GetParam());
  bench.count_ = 4;
  const double loss = bench.Forward().loss_sum;
  bench.Backward();
  const std::vector<float> expected = bench.Gradients();
  std::fill(bench.images_.begin() + 4 * bench.sample_size(), bench.images_.end(), 77.0f);
  bench.labels_[5] = -1;
  EXPECT_EQ(bench.Forward().loss_sum, loss);
  bench.Backward();
  EXPECT_EQ(bench.Gradients(), expected);
}

TEST_P(DeviceConformance, ABatchWithoutSamplesGivesZeroGradients) {
  Bench bench = SmallBench(GetParam());
  bench.count_ = 0;
  EXPECT_EQ(bench.Forward().count, 0);
  bench.Backward();
  EXPECT_THAT(bench.Gradients(), Each(0.0f));
}

TEST_P(DeviceConformance, ScaleMultipliesEveryGradient) {
  Bench bench = SmallBench(GetParam());
  const std::vector<float> whole = bench.ForwardGradients();
  bench.Forward();
  bench.Backward(0.25f);
  const std::vector<float> scaled = bench.Gradients();
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(scaled[i], whole[i] * 0.25f);
}

// Sets one pixel of one sample to NaN and back.
void ExpectNanReachesTheLogitsOfItsSample(const std::vector<model::LayerSpec>& specs,
                                          const DeviceUnderTest& device) {
  constexpr size_t kSample = 2;
  Bench bench(device, ImageModel(specs, kSmallImage));
  const double loss = bench.Forward().loss_sum;
  const std::vector<float> expected = bench.Logits();
  float& pixel = bench.images_[kSample * bench.sample_size() + 57];
  const float before = std::exchange(pixel, NAN);
  EXPECT_TRUE(std::isnan(bench.Forward().loss_sum)) << specs.size() << " layers";
  const std::vector<float> logits = bench.Logits();
  const size_t classes = logits.size() / kBatchSize;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (i / classes == kSample) {
      EXPECT_TRUE(std::isnan(logits[i])) << "logit " << i << " of " << specs.size() << " layers";
    } else {
      EXPECT_EQ(logits[i], expected[i]) << "logit " << i << " of " << specs.size() << " layers";
    }
  }
  pixel = before;
  EXPECT_EQ(bench.Forward().loss_sum, loss);
  EXPECT_EQ(bench.Logits(), expected);
}

TEST_P(DeviceConformance, ANanInTheInputPassesAReluBehindALinearLayer) {
  ExpectNanReachesTheLogitsOfItsSample({{"", model::Flatten{}},
                                        {"", model::Linear{.out = 20}},
                                        {"", model::Relu{}},
                                        {"", model::Linear{.out = 3}}},
                                       GetParam());
}

TEST_P(DeviceConformance, ANanInTheInputPassesAReluBehindAConvolution) {
  for (const int channels : {1, 16}) {  // fewer values than the input has, and more
    ExpectNanReachesTheLogitsOfItsSample({{"", model::Conv2d{.out = channels, .kernel = 3}},
                                          {"", model::Relu{}},
                                          {"", model::Flatten{}},
                                          {"", model::Linear{.out = 3}}},
                                         GetParam());
  }
}

TEST_P(DeviceConformance, ANanInTheInputPassesAReluAndPooling) {
  for (const int channels : {1, 16}) {
    ExpectNanReachesTheLogitsOfItsSample({{"", model::Conv2d{.out = channels, .kernel = 3}},
                                          {"", model::Relu{}},
                                          {"", model::MaxPool2d{.kernel = 2}},
                                          {"", model::Flatten{}},
                                          {"", model::Linear{.out = 3}}},
                                         GetParam());
  }
}

TEST_P(DeviceConformance, ANanInTheInputPassesPoolingAlone) {
  ExpectNanReachesTheLogitsOfItsSample(
      {{"", model::MaxPool2d{.kernel = 2}}, {"", model::Flatten{}}, {"", model::Linear{.out = 3}}},
      GetParam());
  ExpectNanReachesTheLogitsOfItsSample({{"", model::Conv2d{.out = 20, .kernel = 1}},
                                        {"", model::MaxPool2d{.kernel = 3, .stride = 1}},
                                        {"", model::Flatten{}},
                                        {"", model::Linear{.out = 3}}},
                                       GetParam());
}

TEST_P(DeviceConformance, ANanInTheInputPassesAGelu) {
  ExpectNanReachesTheLogitsOfItsSample({{"", model::Flatten{}},
                                        {"", model::Linear{.out = 20}},
                                        {"", model::Gelu{}},
                                        {"", model::Linear{.out = 3}}},
                                       GetParam());
}

TEST_P(DeviceConformance, ANanInTheWeightsIsInTheLoss) {
  for (const auto& specs : {SmallCnn(), model::MlpPreset()}) {
    Bench bench(GetParam(), ImageModel(specs, kSmallImage));
    for (const Parameter& p : bench.layout().parameters) {
      const std::vector<float> values = bench.Values();
      std::vector<float> with_nan = values;
      std::fill_n(with_nan.begin() + p.offset, p.size, NAN);
      bench.SetValues(with_nan);
      EXPECT_TRUE(std::isnan(bench.Forward().loss_sum)) << p.name;
      bench.SetValues(values);
    }
  }
}

TEST_P(DeviceConformance, AReluByItselfIsExactForInfinitiesAndPassesNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Bench bench(GetParam(), ImageModel({{"", model::Flatten{}}, {"", model::Relu{}}}, {1, 1, 6}));
  const std::vector<float> in = {-kInfinity, -1, 0, 1, kInfinity, NAN};
  std::copy(in.begin(), in.end(), bench.images_.begin());
  bench.Forward();
  std::vector<float> out = bench.Logits();
  out.resize(in.size());
  EXPECT_THAT(out, ElementsAre(0, 0, 0, 1, kInfinity, IsNan()));
}

// As a checkpoint is written while the training goes on.
TEST_P(DeviceConformance, ASnapshotStaysAsItWasWhileArraysChange) {
  Bench bench = SmallBench(GetParam());
  bench.ForwardGradients();
  for (int turn = 0; turn < 2; ++turn) {
    const std::vector<float> values = bench.Values(), gradients = bench.Gradients();
    auto snapshot = bench.device().TakeSnapshot({bench.values(), bench.gradients()});
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    bench.TrainBySgd(2);
    EXPECT_NE(bench.Values(), values);
    const auto contents = (*snapshot)->Take();
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_THAT(*contents, ElementsAre(values, gradients));
  }
}

TEST_P(DeviceConformance, TwoSnapshotsAtOnceHoldWhatEachFound) {
  Bench bench = SmallBench(GetParam());
  const std::vector<float> before = bench.Values();
  const auto first = *bench.device().TakeSnapshot({bench.values()});
  bench.TrainBySgd(1);
  const std::vector<float> after = bench.Values();
  const auto second = *bench.device().TakeSnapshot({bench.values()});
  bench.TrainBySgd(1);
  EXPECT_THAT(*second->Take(), ElementsAre(after));
  EXPECT_THAT(*first->Take(), ElementsAre(before));
}

TEST_P(DeviceConformance, ValuesThatAreNotFiniteAreFound) {
  Bench bench = SmallBench(GetParam());
  const std::vector<float> values = bench.Values();
  EXPECT_TRUE(*bench.device().AllFinite(bench.values()));
  for (const float value : {NAN, std::numeric_limits<float>::infinity()}) {
    std::vector<float> spoilt = values;
    spoilt.back() = value;
    bench.SetValues(spoilt);
    EXPECT_FALSE(*bench.device().AllFinite(bench.values())) << value;
  }
  bench.SetValues(values);
  EXPECT_TRUE(*bench.device().AllFinite(bench.values()));
}

TEST_P(DeviceConformance, DropoutIsOffInEvaluation) {
  Bench bench(
      GetParam(),
      ImageModel({{"", model::Flatten{}}, {"", model::Dropout{0.5}}, {"", model::Linear{.out = 3}}},
                 kSmallImage));
  bench.Forward(Mode::kEvaluate, 1);
  const auto logits = bench.Logits();
  bench.Forward(Mode::kEvaluate, 2);
  EXPECT_EQ(bench.Logits(), logits);
}

TEST_P(DeviceConformance, DropoutKeepsTheExpectedShareAndSum) {
  Bench bench(GetParam(),
              ImageModel({{"", model::Flatten{}}, {"", model::Dropout{0.25}}}, {50, 10, 10}));
  std::fill(bench.images_.begin(), bench.images_.end(), 1.0f);
  bench.Forward(Mode::kTrain, 4);
  const auto out = bench.Logits();
  EXPECT_NEAR(std::count(out.begin(), out.end(), 0.0f) / double(out.size()), 0.25, 0.01);
  EXPECT_NEAR(std::accumulate(out.begin(), out.end(), 0.0) / out.size(), 1, 0.02);
}

TEST_P(DeviceConformance, TheDropoutMaskBelongsToTheSampleNotToItsRow) {
  Bench bench(GetParam(),
              ImageModel({{"", model::Flatten{}}, {"", model::Dropout{0.5}}}, kSmallImage));
  bench.Forward(Mode::kTrain, 4);
  const auto before = bench.Logits();
  const size_t row = bench.sample_size();
  std::swap(bench.samples_[0], bench.samples_[5]);
  std::swap(bench.labels_[0], bench.labels_[5]);
  std::swap_ranges(bench.images_.begin(), bench.images_.begin() + row, bench.images_.end() - row);
  bench.Forward(Mode::kTrain, 4);
  const auto after = bench.Logits();
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + row, after.end() - row));
}

TEST_P(DeviceConformance, TheSameRunTwiceGivesTheSameBits) {
  EXPECT_EQ(SmallBench(GetParam()).TrainBySgd(20), SmallBench(GetParam()).TrainBySgd(20));
}

TEST_P(DeviceConformance, TrainingLowersTheLoss) {
  Bench bench = SmallBench(GetParam());
  const double before = bench.Forward().loss_sum;
  bench.TrainBySgd(50);
  EXPECT_LT(bench.Forward().loss_sum, 0.1 * before);
  EXPECT_EQ(bench.Forward().correct, kBatchSize);
}

}  // namespace
}  // namespace dp::engine

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "worker/engine/device/testing/device_conformance.h"

// The checks of each kind of layer and loss, in small models. tests/interop compares the same
// kinds with PyTorch.

namespace dp::engine {
namespace {

using ::testing::Each;

constexpr float kLayerStep = 1.0f / 1024;
constexpr double kLayerTolerance = 0.02;

model::LayerSpec Head() { return {"", model::Linear{.out = 3}}; }

// Runs `check` on each model, and names the one that fails.
void ForEachCase(const DeviceUnderTest& device, const std::function<void(Bench&)>& check) {
  for (const LayerCase& each : LayerCases()) {
    SCOPED_TRACE(each.name);
    if (each.of_tokens) continue;  // LanguageModelConformance has these checks
    Bench bench(device, ModelOf(each));
    check(bench);
  }
}

// Rows behind the count may hold anything.
void ExpectPaddedRowsAddNothing(Bench& bench) {
  bench.count_ = 4;
  const double loss = bench.Forward().loss_sum;
  bench.Backward();
  const std::vector<float> expected = bench.Gradients();
  std::fill(bench.images_.begin() + 4 * bench.sample_size(), bench.images_.end(), 77.0f);
  EXPECT_EQ(bench.Forward().loss_sum, loss);
  bench.Backward();
  EXPECT_EQ(bench.Gradients(), expected);
}

TEST_P(LayerConformance, GradientsAreTheSlopesOfTheLoss) {
  ForEachCase(GetParam(),
              [](Bench& bench) { bench.ExpectGradientsAreSlopes(kLayerStep, kLayerTolerance); });
}

TEST_P(LayerConformance, PaddedRowsAddNothing) {
  ForEachCase(GetParam(), ExpectPaddedRowsAddNothing);
}

TEST_P(LayerConformance, ABatchWithoutSamplesGivesZeroGradients) {
  ForEachCase(GetParam(), [](Bench& bench) {
    bench.ForwardGradients();
    bench.count_ = 0;
    bench.Forward();
    bench.Backward();
    EXPECT_THAT(bench.Gradients(), Each(0.0f));
  });
}

TEST_P(LayerConformance, ANanInTheInputIsInTheLoss) {
  for (const Mode mode : {Mode::kTrain, Mode::kEvaluate}) {
    ForEachCase(GetParam(), [mode](Bench& bench) {
      bench.images_[bench.sample_size() / 2] = NAN;
      EXPECT_TRUE(std::isnan(bench.Forward(mode).loss_sum));
    });
  }
}

TEST_P(LayerConformance, TheSameStepsTwiceGiveTheSameBits) {
  ForEachCase(GetParam(), [](Bench& bench) {
    const std::vector<float> start = bench.Values();
    const std::vector<float> first = bench.TrainBySgd(3);
    bench.SetValues(start);
    EXPECT_EQ(bench.TrainBySgd(3), first);
    EXPECT_NE(first, start);
  });
}

TEST_P(LayerTwinConformance, EachLayerGivesWhatItGivesOnTheCpu) {
  for (const LayerCase& each : LayerCases()) {
    SCOPED_TRACE(each.name);
    ExpectEqualToTheCpu(GetParam(), ModelOf(each));
  }
}

// The targets are probabilities, which every loss takes.
TEST_P(LayerTwinConformance, EachLossGivesWhatItGivesOnTheCpu) {
  for (const LossCase& each : LossCases()) {
    SCOPED_TRACE(each.name);
    Bench::Model model =
        ImageModel({{"", model::Flatten{}}, {"", model::Linear{.out = 9}}}, kSmallImage);
    model.loss = each.loss;
    ExpectEqualToTheCpu(GetParam(), model);
  }
}

TEST_P(LayerConformance, GradientsOfEachLossAreItsSlopes) {
  for (const LossCase& each : LossCases()) {
    SCOPED_TRACE(each.name);
    Bench::Model model =
        ImageModel({{"", model::Flatten{}}, {"", model::Linear{.out = 4}}}, {1, 3, 3});
    model.loss = each.loss;
    Bench(GetParam(), model).ExpectGradientsAreSlopes(kLayerStep, kLayerTolerance);
  }
}

TEST_P(LayerConformance, PaddedRowsAddNothingToAnyLoss) {
  for (const LossCase& each : LossCases()) {
    SCOPED_TRACE(each.name);
    Bench::Model model =
        ImageModel({{"", model::Flatten{}}, {"", model::Linear{.out = 4}}}, {1, 3, 3});
    model.loss = each.loss;
    Bench bench(GetParam(), model);
    ExpectPaddedRowsAddNothing(bench);
  }
}

Bench NormBench(const DeviceUnderTest& device) {
  return Bench(
      device,
      ImageModel({{"norm", model::BatchNorm{.momentum = 0.25}}, {"", model::Flatten{}}, Head()},
                 {2, 3, 4}));
}

// The part of a flat array that belongs to a parameter.
std::vector<float> PartOf(const Bench& bench, absl::string_view name,
                          const std::vector<float>& flat) {
  for (const Parameter& p : bench.layout().parameters) {
    if (p.name != name) continue;
    return {flat.begin() + p.offset, flat.begin() + p.offset + p.size};
  }
  return {};
}

// Mean and unbiased variance of a channel of NormBench over the first `count` samples.
std::pair<double, double> MomentsOf(const Bench& bench, int channel, int count) {
  std::vector<double> values;
  for (int sample = 0; sample < count; ++sample) {
    for (int place = 0; place < 12; ++place) {
      values.push_back(bench.images_[sample * 24 + channel * 12 + place]);
    }
  }
  const auto size = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / size;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, squares / (size - 1)};
}

// A rank with 4 of the 6 samples of a global batch, and one of two: scale 2 / 6.
TEST_P(BatchNormConformance, MeasurementsAreWeightedByTheRanksShareOfTheSamples) {
  Bench bench = NormBench(GetParam());
  bench.count_ = 4;
  bench.Forward();
  bench.Backward(2.0f / 6);
  for (int channel = 0; channel < 2; ++channel) {
    const auto [mean, variance] = MomentsOf(bench, channel, 4);
    const auto measured = [&](absl::string_view name) {
      return PartOf(bench, name, bench.Gradients())[channel];
    };
    EXPECT_NEAR(measured("norm.running_mean"), mean * 4 * 2 / 6, 1e-6);
    EXPECT_NEAR(measured("norm.running_var"), variance * 4 * 2 / 6, 1e-5);
  }
}

TEST_P(BatchNormConformance, AStepMovesTheRunningStatisticsByTheMomentum) {
  Bench bench = NormBench(GetParam());
  bench.TrainBySgd(1);
  for (int channel = 0; channel < 2; ++channel) {
    const auto [mean, variance] = MomentsOf(bench, channel, kBatchSize);
    EXPECT_NEAR(PartOf(bench, "norm.running_mean", bench.Values())[channel], 0.25 * mean, 1e-6);
    EXPECT_NEAR(PartOf(bench, "norm.running_var", bench.Values())[channel], 0.75 + 0.25 * variance,
                1e-5);
  }
}

TEST_P(BatchNormConformance, AnAverageOfTheWeightsCopiesTheRunningStatistics) {
  Bench bench = NormBench(GetParam());
  const auto optimizer =
      *bench.device().MakeOptimizer({SgdOptions{.learning_rate = 0.1}, 0, /*average_decay=*/0.75},
                                    bench.layout(), bench.values(), bench.gradients());
  for (int step = 1; step <= 2; ++step) {
    bench.ForwardGradients();
    optimizer->Step({.number = step});
  }
  const auto average = *ReadArray(bench.device(), optimizer->state().back().values);
  for (const char* name : {"norm.running_mean", "norm.running_var"}) {
    EXPECT_EQ(PartOf(bench, name, average), PartOf(bench, name, bench.Values())) << name;
  }
  EXPECT_NE(PartOf(bench, "norm.weight", average), PartOf(bench, "norm.weight", bench.Values()));
}

TEST_P(BatchNormConformance, EvaluationTakesTheRunningStatistics) {
  Bench bench = NormBench(GetParam());
  const double before = bench.Forward(Mode::kEvaluate).loss_sum;
  std::fill(bench.images_.begin() + bench.sample_size(), bench.images_.end(), 3.0f);
  bench.count_ = 1;  // the other samples change nothing
  const double alone = bench.Forward(Mode::kEvaluate).loss_sum;
  std::vector<float> values = bench.Values();
  bench.count_ = kBatchSize;
  EXPECT_NE(bench.Forward(Mode::kEvaluate).loss_sum, before);
  for (const Parameter& p : bench.layout().parameters) {
    if (p.is_statistic()) std::fill_n(values.begin() + p.offset, p.size, 2.0f);
  }
  bench.SetValues(values);
  bench.count_ = 1;
  EXPECT_NE(bench.Forward(Mode::kEvaluate).loss_sum, alone);
}

// One value has no variance.
TEST_P(BatchNormConformance, ASingleValueOfAChannelMeasuresNoVariance) {
  Bench bench(GetParam(), ImageModel({{"norm", model::BatchNorm{}}, Head()}, {4}));
  bench.count_ = 1;
  bench.Forward();
  bench.Backward();
  EXPECT_THAT(PartOf(bench, "norm.running_var", bench.Gradients()), Each(0.0f));
}

}  // namespace
}  // namespace dp::engine

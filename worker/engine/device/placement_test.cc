// Layers of one model on several devices.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/device/testing/device_conformance.h"

namespace dp::engine {
namespace {

using Layers = std::vector<model::LayerSpec>;

// The layers from `border` on are on the second device.
Layers SplitAt(Layers layers, size_t border) {
  for (size_t i = border; i < layers.size(); ++i) layers[i].device = 1;
  return layers;
}

// Each layer is on another device than the one before.
Layers Dealt(Layers layers, int devices) {
  for (size_t i = 0; i < layers.size(); ++i) layers[i].device = static_cast<int>(i) % devices;
  return layers;
}

std::vector<float> TrainedOnImages(const Layers& layers) {
  return Bench(OneCpuThread(), ImageModel(layers, kSmallImage)).TrainBySgd(5);
}

std::vector<float> TrainedOnTexts(const Layers& layers) {
  return Bench(OneCpuThread(), TextModel(layers)).TrainByAdamW(5);
}

// Skips over two layers, and two readers of one output beside an add.
Layers WithSkips() {
  return {{"first", model::Conv2d{.out = 4, .kernel = 3, .padding = 1}},
          {"relu", model::Relu{}},
          {"second", model::Conv2d{.out = 4, .kernel = 3, .padding = 1}},
          {"norm", model::BatchNorm{}},
          {"sum", model::Add{"relu"}},
          {"relu_of_sum", model::Relu{}},
          {"branch", model::Conv2d{.out = 4, .kernel = 1}, "relu"},
          {"both", model::Add{"relu_of_sum"}},
          {"flat", model::Flatten{}},
          {"fc", model::Linear{.out = 10}}};
}

TEST(PlacementTest, ABorderAnywhereGivesTheBitsOfOneDevice) {
  for (const Layers& layers : {SmallCnn(), WithSkips()}) {
    const std::vector<float> expected = TrainedOnImages(layers);
    for (size_t border = 1; border < layers.size(); ++border)
      EXPECT_EQ(TrainedOnImages(SplitAt(layers, border)), expected) << border;
  }
}

TEST(PlacementTest, LayersMayGoBackAndForth) {
  for (const Layers& layers : {SmallCnn(), WithSkips()}) {
    for (const int devices : {2, 3})
      EXPECT_EQ(TrainedOnImages(Dealt(layers, devices)), TrainedOnImages(layers)) << devices;
  }
}

TEST(PlacementTest, ALanguageModelWithTiedWeightsIsTheSameToo) {
  const std::vector<float> expected = TrainedOnTexts(SmallGpt());
  for (const int devices : {2, 3})
    EXPECT_EQ(TrainedOnTexts(Dealt(SmallGpt(), devices)), expected) << devices;
}

TEST(PlacementTest, GradientsBecomeReadyInTheOrderOfTheLayout) {
  Bench bench(OneCpuThread(), ImageModel(Dealt(WithSkips(), 2), kSmallImage));
  bench.Forward();
  const std::vector<int> ready = bench.Backward();
  ASSERT_EQ(ready.size(), bench.layout().parameters.size());
  for (size_t i = 0; i < ready.size(); ++i) EXPECT_EQ(ready[i], static_cast<int>(i));
}

TEST(PlacementTest, EachDeviceReportsItsLoad) {
  Bench alone(OneCpuThread(), ImageModel(SmallCnn(), kSmallImage));
  EXPECT_TRUE(alone.network().loads().empty());
  Bench bench(OneCpuThread(), ImageModel(SplitAt(SmallCnn(), 3), kSmallImage));
  bench.Forward();
  bench.Backward();
  const std::vector<DeviceLoad> loads = bench.network().loads();
  ASSERT_EQ(loads.size(), 2u);
  for (const DeviceLoad& load : loads) {
    EXPECT_EQ(load.samples, bench.count_);
    EXPECT_GT(load.busy, absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace dp::engine

// Layers of a plug-in in networks on the CPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "worker/engine/device/replicas/replicas.h"
#include "worker/engine/device/testing/device_conformance.h"
#include "worker/engine/plugin/loaded_plugin.h"

namespace dp::engine {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTestPlugin[] = DP_PLUGINS "/good_plugin.so";
constexpr float kPluginStep = 1.0f / 1024;
constexpr double kPluginTolerance = 0.02;

using PluginValues = std::vector<model::PluginValue>;

model::Plugin Mine(const std::string& layer, PluginValues config = {}) {
  return {kTestPlugin, layer, std::move(config), *LoadedPlugin::Load(kTestPlugin)->Find(layer)};
}

// Between two layers that learn.
Bench::Model WithLayer(const model::LayerKind& kind) {
  return ImageModel({{"below", model::Linear{.out = 12}},
                     {"mine", kind},
                     {"", model::Flatten{}},
                     {"above", model::Linear{.out = 3}}},
                    {5, 3});
}

Bench::Model WholeModel() {
  const auto number = [](const std::string& path, double value) {
    return model::PluginValue{path, model::PluginValue::Type::kNumber, value};
  };
  return ImageModel({{"mine", Mine("mlp", {number("classes", 3), number("hidden", 6)})}}, {7});
}

Bench PluginBench(const Bench::Model& model) { return Bench(OneCpuThread(), model); }

TEST(PluginLayerTest, ATwinOfABuiltInLayerHasItsBits) {
  Bench mine = PluginBench(WithLayer(Mine("rmsNorm"))),
        built_in = PluginBench(WithLayer(model::RmsNorm{}));
  EXPECT_EQ(mine.Values(), built_in.Values());
  for (const int count : {kBatchSize, kBatchSize - 2}) {
    mine.count_ = built_in.count_ = count;
    EXPECT_EQ(mine.Forward().loss_sum, built_in.Forward().loss_sum);
    mine.Backward();
    built_in.Backward();
    EXPECT_EQ(mine.Gradients(), built_in.Gradients());
  }
  mine.count_ = built_in.count_ = kBatchSize;
  EXPECT_EQ(mine.TrainBySgd(5), built_in.TrainBySgd(5));
  EXPECT_EQ(mine.Logits(), built_in.Logits());
}

TEST(PluginLayerTest, GradientsAreTheSlopesOfTheLoss) {
  PluginBench(WithLayer(Mine("rmsNorm"))).ExpectGradientsAreSlopes(kPluginStep, kPluginTolerance);
  PluginBench(WholeModel()).ExpectGradientsAreSlopes(kPluginStep, kPluginTolerance);
}

TEST(PluginLayerTest, ParametersHaveTheirOrderAndInitialValues) {
  Bench bench = PluginBench(WholeModel());
  const std::vector<Parameter>& all = bench.layout().parameters;
  ASSERT_EQ(all.size(), 3);
  EXPECT_EQ(all[0].name, "mine.down");
  EXPECT_EQ(all[1].name, "mine.up_bias");
  EXPECT_EQ(all[2].name, "mine.up");
  EXPECT_THAT(all[2].shape, ElementsAre(6, 7));
  const std::vector<float> values = bench.Values();
  const float bound = 1 / std::sqrt(7.0f);
  for (int64_t i = 0; i < all[2].size; ++i) {
    EXPECT_LE(std::abs(values[all[2].offset + i]), bound);
  }
  bench.Forward();
  EXPECT_THAT(bench.Backward(), ElementsAre(0, 1, 2));
}

TEST(PluginLayerTest, PaddedRowsAddNothing) {
  Bench bench = PluginBench(WithLayer(Mine("rmsNorm")));
  bench.count_ = 4;
  const double loss = bench.Forward().loss_sum;
  bench.Backward();
  const std::vector<float> expected = bench.Gradients();
  std::fill(bench.images_.begin() + 4 * bench.sample_size(), bench.images_.end(), 77.0f);
  EXPECT_EQ(bench.Forward().loss_sum, loss);
  bench.Backward();
  EXPECT_EQ(bench.Gradients(), expected);
  bench.count_ = 0;
  bench.Forward();
  bench.Backward();
  EXPECT_THAT(bench.Gradients(), Each(0.0f));
}

TEST(PluginLayerTest, ARunningStatisticIsMeasuredAndNotTrained) {
  Bench bench = PluginBench(WithLayer(Mine("center")));
  EXPECT_EQ(bench.layout().parameters.back().name, "mine.mean");
  EXPECT_EQ(bench.layout().Trained().parameters.size(), 4);
  const float samples = kBatchSize;
  bench.Forward();
  bench.Backward(1 / samples);
  const float measured = bench.Gradients()[bench.layout().parameters.back().offset];
  EXPECT_NE(measured, 0);
  StepStatistics(bench.layout(), bench.Gradients(), bench.values());
  EXPECT_FLOAT_EQ(bench.Values()[bench.layout().parameters.back().offset], 0.5f * measured);
}

DeviceUnderTest TwoReplicas() {
  return {.name = "two replicas",
          .open = [] { return OpenReplicas(2, [] { return OpenCpu(1); }); }};
}

// The device's error after a step with a layer that fails at this place.
std::string ErrorOfStep(const std::string& at, const DeviceUnderTest& device = OneCpuThread()) {
  const model::PluginValue value = {"at", model::PluginValue::Type::kText, 0, at};
  Bench bench(device, WithLayer(Mine("faulty", {value})));
  bench.ForwardGradients();
  return std::string(bench.device().status().message());
}

TEST(PluginLayerTest, AnErrorOfTheLayerIsTheDevices) {
  EXPECT_EQ(ErrorOfStep("nowhere"), "");
  EXPECT_EQ(ErrorOfStep("forward"), std::string("layer 'mine' (plugin 'faulty' of ") + kTestPlugin +
                                        "): forward: told to fail");
  EXPECT_THAT(ErrorOfStep("unknown"), HasSubstr("an exception that is no std::exception"));
  EXPECT_THAT(ErrorOfStep("backward"), HasSubstr("'faulty' of "));
  EXPECT_THAT(ErrorOfStep("backward"), HasSubstr("backward: told to fail"));
}

TEST(PluginLayerTest, ReplicasComputeItAndReportItsErrors) {
  EXPECT_EQ(ErrorOfStep("nowhere", TwoReplicas()), "");
  EXPECT_THAT(ErrorOfStep("forward", TwoReplicas()), HasSubstr("forward: told to fail"));
  Bench mine(TwoReplicas(), WithLayer(Mine("rmsNorm")));
  Bench built_in(TwoReplicas(), WithLayer(model::RmsNorm{}));
  EXPECT_EQ(mine.TrainBySgd(3), built_in.TrainBySgd(3));
}

TEST(PluginLayerTest, ALayerThatMakesNanIsNamed) {
  EXPECT_THAT(ErrorOfStep("nan"),
              AllOf(HasSubstr("layer 'mine'"),
                    HasSubstr("forward: it wrote values that are no numbers (NaN) to its output")));
  EXPECT_THAT(ErrorOfStep("nan gradient"), HasSubstr("backward: it wrote values"));
}

TEST(PluginLayerTest, NanThatCameInIsNotTheLayersFault) {
  Bench bench = PluginBench(WithLayer(Mine("rmsNorm")));
  bench.images_[0] = NAN;
  EXPECT_TRUE(std::isnan(bench.Forward().loss_sum));
  bench.Backward();
  EXPECT_TRUE(bench.device().status().ok());
}

}  // namespace
}  // namespace dp::engine

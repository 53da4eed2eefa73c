#include "worker/engine/device/replicas/replicas.h"

#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/device/testing/device_conformance.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;

DeviceUnderTest Replicas(int devices) {
  return {.name = std::to_string(devices) + " replicas",
          .open = [devices] { return OpenReplicas(devices, [] { return OpenCpu(1); }); }};
}

INSTANTIATE_TEST_SUITE_P(Replicas, DeviceConformance, ::testing::Values(Replicas(1), Replicas(4)));
INSTANTIATE_TEST_SUITE_P(Replicas, LanguageModelConformance, ::testing::Values(Replicas(2)));

TEST(ReplicasTest, ABatchIsSplitAsTorchSplitsIt) {
  EXPECT_THAT(PartsOfBatch(8, 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(PartsOfBatch(5, 4), ElementsAre(2, 2, 1));
  EXPECT_THAT(PartsOfBatch(7, 3), ElementsAre(3, 3, 1));
  EXPECT_THAT(PartsOfBatch(2, 4), ElementsAre(1, 1));
  EXPECT_THAT(PartsOfBatch(0, 4), ElementsAre(0));
}

// Two samples on two devices with the loss sum(output * labels), whose gradients are the sum. The
// squared error of outputs that are 0 has that gradient for targets of -3/2 labels: 2/3 (0 + 3/2).
TEST(ReplicasTest, TheGradientsOfTheWorkedExampleAreTheSum) {
  const auto layers = *model::CheckShapes({{{"fc", model::Linear{.out = 3}}}}, {2});
  const auto device = *Replicas(2).open();
  const ParameterLayout layout = LayOut(layers);
  const auto values = *device->Allocate(layout.size), gradients = *device->Allocate(layout.size);
  const auto network = *device->Compile(layers, {.batch_size = 2, .loss = MseLoss()},
                                        values->span(), gradients->span());
  const std::vector<float> inputs = {0.4362f, 0.4574f, 0.2052f, 0.2362f};
  const std::vector<float> targets = {-1.5f, 0, 0, 0, -1.5f, 0};
  const std::vector<int64_t> samples = {0, 1};
  network->Forward({.images = inputs, .samples = samples, .count = 2, .targets = targets},
                   Mode::kTrain);
  network->Backward(1, [](int) {});
  const auto gradient = [&](size_t parameter) {
    const Parameter& p = layout.parameters[parameter];
    const absl::Span<float> part = gradients->span().subspan(p.offset, p.size);
    return std::vector<float>(part.begin(), part.end());
  };
  using ::testing::FloatEq;
  EXPECT_THAT(gradient(0), ElementsAre(FloatEq(1), FloatEq(1), 0));
  EXPECT_THAT(gradient(1), ElementsAre(FloatEq(0.4362f), FloatEq(0.4574f), FloatEq(0.2052f),
                                       FloatEq(0.2362f), 0, 0));
}

TEST(ReplicasTest, TheSameRunTwiceGivesTheSameBits) {
  const auto train = [] {
    return Bench(Replicas(4), ImageModel(SmallCnn(), kSmallImage)).TrainBySgd(10);
  };
  EXPECT_EQ(train(), train());
}

TEST(ReplicasTest, EachDeviceReportsItsLoad) {
  Bench bench(Replicas(4), ImageModel(SmallCnn(), kSmallImage));
  bench.count_ = 5;
  bench.Forward();
  bench.Backward();
  std::vector<int64_t> samples;
  for (const DeviceLoad& load : bench.network().loads()) {
    samples.push_back(load.samples);
    EXPECT_GT(load.busy, absl::ZeroDuration());
  }
  EXPECT_THAT(samples, ElementsAre(2, 2, 1, 0));
}

}  // namespace
}  // namespace dp::engine

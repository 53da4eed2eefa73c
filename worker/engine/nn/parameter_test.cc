#include "worker/engine/nn/parameter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dp::engine {
namespace {

std::vector<model::CheckedLayer> Cnn() {
  return *model::CheckClassifier(model::CnnPreset(), {1, 28, 28}, 10);
}

TEST(ParameterTest, LiesInTheOrderInWhichBackwardEndsLayers) {
  std::vector<std::string> names;
  for (const Parameter& p : LayOut(Cnn()).parameters) names.push_back(p.name);
  EXPECT_THAT(names, testing::ElementsAre("linear9.bias", "linear9.weight", "linear7.bias",
                                          "linear7.weight", "conv2d3.bias", "conv2d3.weight",
                                          "conv2d0.bias", "conv2d0.weight"));
}

TEST(ParameterTest, StartsAtAlignedOffsetsWithoutOverlap) {
  const ParameterLayout layout = LayOut(Cnn());
  int64_t end = 0;
  for (const Parameter& p : layout.parameters) {
    EXPECT_EQ(p.offset % 16, 0) << p.name;
    EXPECT_GE(p.offset, end) << p.name;
    end = p.offset + p.size;
    EXPECT_EQ(p.size, model::ElementCount(p.shape)) << p.name;
  }
  EXPECT_GE(layout.size, end);
}

TEST(ParameterTest, ALayerWithoutBiasHasOnlyItsWeight) {
  const std::vector<model::LayerSpec> layers = {
      {"c", model::Conv2d{.out = 4, .kernel = 3, .bias = false}}};
  const ParameterLayout layout = LayOut(*model::CheckShapes(layers, {2, 5, 5}));
  ASSERT_EQ(layout.parameters.size(), 1u);
  EXPECT_EQ(layout.parameters[0].shape, (model::Shape{4, 2, 3, 3}));
  EXPECT_EQ(layout.parameters[0].fan_in, 18);
}

TEST(ParameterTest, InitialValuesFillTheRangeOfTheirFanIn) {
  const ParameterLayout layout = LayOut(Cnn());
  std::vector<float> values(layout.size);
  Initialize(layout, 1, absl::MakeSpan(values));
  const Parameter& p = layout.parameters[3];
  const auto begin = values.begin() + p.offset;
  const auto [low, high] = std::minmax_element(begin, begin + p.size);
  EXPECT_NEAR(*low * std::sqrt(p.fan_in), -1, 1e-3);
  EXPECT_NEAR(*high * std::sqrt(p.fan_in), 1, 1e-3);
}

TEST(ParameterTest, TheSeedDecidesTheInitialValues) {
  const ParameterLayout layout = LayOut(Cnn());
  std::vector<float> a(layout.size), b(layout.size), c(layout.size);
  Initialize(layout, 1, absl::MakeSpan(a));
  Initialize(layout, 1, absl::MakeSpan(b));
  Initialize(layout, 2, absl::MakeSpan(c));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

}  // namespace
}  // namespace dp::engine

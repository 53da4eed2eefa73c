#include "base/model/layer_fault.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::model {
namespace {

using ::testing::HasSubstr;

const LayerSpec kTable = {"wte", Embedding{.features = 12}};

LayerFault FaultOf(const std::vector<LayerSpec>& layers) {
  return FindFault(layers).value_or(LayerFault{.what = "no fault"});
}

std::string TextOf(const LayerSpec& layer) { return FaultOf({kTable, layer}).what; }

TEST(LayerFaultTest, AFaultHasItsLayerAndField) {
  const LayerFault fault = FaultOf({kTable, {"head", Linear{.out = -1}}});
  EXPECT_EQ(fault.layer, 1u);
  EXPECT_EQ(fault.field, "out");
  EXPECT_EQ(fault.what, "layer 'head' (linear): out is -1; it must be above 0");
  EXPECT_EQ(FindFault(CnnPreset()), std::nullopt);
}

TEST(LayerFaultTest, ANameThatWouldNotStandInAFileIsRefused) {
  EXPECT_EQ(FaultOf({{"a\"b", Flatten{}}}).what,
            "layer 0 has the name \"a\\\"b\"; it may be up to 128 letters, digits, '_', '-' and "
            "'.'");
  EXPECT_FALSE(IsLayerName(""));
  EXPECT_FALSE(IsLayerName(std::string(129, 'a')));
  EXPECT_TRUE(IsLayerName("features.out-1_b"));
}

TEST(LayerFaultTest, NamesMustDiffer) {
  const LayerFault fault = FaultOf({{"a", Relu{}}, {"a", Relu{}}});
  EXPECT_EQ(fault.field, "name");
  EXPECT_EQ(fault.what, "two layers have the name 'a'; names must differ");
}

TEST(LayerFaultTest, RefusesValuesOutOfTheirRange) {
  EXPECT_THAT(TextOf({"", Dropout{1.0}}), HasSubstr("p is 1; it must be at least 0 and below 1"));
  EXPECT_THAT(TextOf({"", Linear{.in = -1, .out = 1}}), HasSubstr("in is -1"));
  EXPECT_THAT(TextOf({"", Conv2d{.out = -1, .kernel = 3}}), HasSubstr("out is -1"));
  EXPECT_THAT(TextOf({"", Conv2d{.out = 8, .kernel = 0}}), HasSubstr("kernel is 0"));
  EXPECT_THAT(TextOf({"", Conv2d{.out = 8, .kernel = 3, .stride = 0}}), HasSubstr("stride is 0"));
  EXPECT_THAT(TextOf({"", Conv2d{.out = 8, .kernel = 3, .padding = -1}}),
              HasSubstr("padding is -1"));
  EXPECT_THAT(TextOf({"", MaxPool2d{.kernel = 2, .stride = -1}}), HasSubstr("stride is -1"));
  EXPECT_THAT(TextOf({"", CausalAttention{}}), HasSubstr("heads is 0"));
  EXPECT_EQ(FaultOf({{.name = "", .kind = Relu{}, .device = -1}}).field, "device");
  EXPECT_THAT(TextOf({.name = "", .kind = Flatten{}, .device = 64}),
              HasSubstr("device is 64; it must be 0 to 63"));
  EXPECT_THAT(TextOf({"", Positions{-1}}), HasSubstr("initStd is -1; it must be 0 to 100"));
  EXPECT_THAT(FaultOf({{"", Embedding{}}}).what,
              HasSubstr("features is 0 or missing; it must be above 0"));
}

TEST(LayerFaultTest, RefusesValuesOfLaterLayersOutOfTheirRange) {
  EXPECT_THAT(TextOf({"", Conv2d{.out = 8, .kernel = 3, .groups = 0}}), HasSubstr("groups is 0"));
  EXPECT_THAT(TextOf({"", Conv1d{.out = 8, .kernel = 3, .dilation = -1}}),
              HasSubstr("dilation is -1"));
  EXPECT_THAT(TextOf({"", MaxPool2d{.kernel = 3, .padding = 2}}),
              HasSubstr("padding is 2; it must be at most half of kernel"));
  EXPECT_THAT(TextOf({"", AvgPool2d{}}), HasSubstr("kernel is 0"));
  EXPECT_THAT(TextOf({"", AdaptiveAvgPool2d{.rows = -1}}), HasSubstr("rows is -1"));
  EXPECT_THAT(TextOf({"", BatchNorm{.epsilon = 1}}),
              HasSubstr("epsilon is 1; it must be above 0 and below 1"));
  EXPECT_THAT(TextOf({"", BatchNorm{.momentum = 2}}),
              HasSubstr("momentum is 2; it must be above 0 and at most 1"));
  EXPECT_THAT(TextOf({"", RmsNorm{.epsilon = -1}}), HasSubstr("epsilon is -1"));
  EXPECT_THAT(TextOf({"", Attention{}}), HasSubstr("heads is 0"));
}

TEST(LayerFaultTest, OnlyTheLastLayerMayLeaveItsOutputsToTheData) {
  EXPECT_EQ(TextOf({"", Linear{}}), "no fault");
  const LayerFault fault = FaultOf({kTable, {"a", Linear{}}, {"b", Linear{.out = 3}}});
  EXPECT_EQ(fault.what, "layer 'a' (linear): out is 0 or missing; it must be above 0");
}

TEST(LayerFaultTest, AnInputNamesALayerAbove) {
  const LayerFault fault = FaultOf({kTable, {"a", Relu{}, "b"}, {"b", Relu{}}});
  EXPECT_EQ(fault.field, "input");
  EXPECT_EQ(fault.what, "layer 'a' (relu): input is 'b'; it must be the name of a layer above");
}

TEST(LayerFaultTest, EveryOutputIsTaken) {
  EXPECT_EQ(FaultOf({kTable, {"a", Relu{}}, {"b", Relu{}, "wte"}}).what,
            "layer 'a' (relu): no layer takes its output; name it in the input or the add of a "
            "layer below, or leave it out");
  EXPECT_EQ(FindFault({{kTable, {"a", Relu{}}, {"b", Relu{}, "wte"}, {"c", Add{"a"}}}}),
            std::nullopt);
}

TEST(LayerFaultTest, AnAddNamesALayerAbove) {
  EXPECT_THAT(
      TextOf({"", Add{"norm"}}),
      HasSubstr("layer 'add1' (add): layer is 'norm'; it must be the name of a layer above"));
  EXPECT_EQ(TextOf({"", Add{"wte"}}), "no fault");
}

TEST(LayerFaultTest, OneLayerIsTiedToTheEmbedding) {
  EXPECT_THAT(FaultOf({kTable, {"a", TiedLinear{"wte"}}, {"b", TiedLinear{"wte"}}}).what,
              HasSubstr("embedding is 'wte', which 'a' is tied to already"));
  EXPECT_THAT(FaultOf({kTable, {"a", LayerNorm{}}, {"b", TiedLinear{"a"}}}).what,
              HasSubstr("embedding is 'a', a layer of kind layerNorm; it must name an embedding"));
}

}  // namespace
}  // namespace dp::model

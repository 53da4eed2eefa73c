#include "base/model/shape_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp::model {
namespace {

using ::testing::HasSubstr;

const Shape kImage = {1, 28, 28};

std::string ErrorOf(std::vector<LayerSpec> layers) {
  return std::string(CheckShapes(layers, kImage).status().message());
}

TEST(ShapeCheckTest, FillsInWhatFollowsFromTheShapes) {
  const auto layers = *CheckClassifier(CnnPreset(), kImage, 10);
  EXPECT_EQ(std::get<Conv2d>(layers[3].kind).in, 16);
  EXPECT_EQ(std::get<MaxPool2d>(layers[5].kind).stride, 2);
  EXPECT_EQ(std::get<Linear>(layers[7].kind).in, 1568);
  EXPECT_EQ(layers[5].out, (Shape{32, 7, 7}));
  EXPECT_EQ(layers[6].name, "flatten6");
}

TEST(ShapeCheckTest, ASampleIsNotLargerThanAnActivation) {
  const auto why = [](const Shape& sample) {
    return std::string(CheckShapes({{"", Flatten{}}}, sample).status().message());
  };
  EXPECT_EQ(why({int64_t{1} << 14, int64_t{1} << 14}), "");
  for (const Shape& sample : {Shape{int64_t{1} << 32, int64_t{1} << 32, 1},
                              Shape{5, 3689348814741910324, 1}, Shape{(int64_t{1} << 28) + 1}}) {
    EXPECT_EQ(why(sample), "a sample of " + ShapeText(sample) + " has more than 268435456 values");
  }
}

TEST(ShapeCheckTest, BothPresetsClassifyFashionMnist) {
  EXPECT_TRUE(CheckClassifier(MlpPreset(), kImage, 10).ok());
  EXPECT_TRUE(CheckClassifier(CnnPreset(), kImage, 10).ok());
  EXPECT_EQ(Preset("vgg").status().message(),
            "no preset 'vgg'; there are mlp, cnn, resnet18, resnet34, resnet50, resnet18-cifar, "
            "resnet34-cifar, resnet50-cifar, gpt, gpt2-124m, gpt2-355m, gpt2-774m, gpt2-1558m");
}

TEST(ShapeCheckTest, AStridedConvolutionRoundsDown) {
  const std::vector<LayerSpec> layers = {{"", Conv2d{.out = 4, .kernel = 5, .stride = 2}}};
  EXPECT_EQ((*CheckShapes(layers, kImage))[0].out, (Shape{4, 12, 12}));
}

TEST(ShapeCheckTest, ConvolutionsWithGroupsAndDilation) {
  const auto out = [](const LayerKind& kind) {
    return (*CheckShapes({{{"", kind}}}, {4, 9, 12}))[0].out;
  };
  EXPECT_EQ(out(Conv2d{.out = 8, .kernel = 3, .groups = 4, .dilation = 3}), (Shape{8, 3, 6}));
  EXPECT_EQ(out(MaxPool2d{.kernel = 3, .stride = 2, .padding = 1}), (Shape{4, 5, 6}));
  EXPECT_EQ(out(AvgPool2d{.kernel = 2}), (Shape{4, 4, 6}));
  EXPECT_EQ(out(AdaptiveAvgPool2d{.rows = 2, .columns = 5}), (Shape{4, 2, 5}));
  EXPECT_EQ((*CheckShapes({{{"", Conv1d{.out = 3, .kernel = 4}}}}, {2, 10}))[0].out, (Shape{3, 7}));
}

TEST(ShapeCheckTest, AMisfitOfAConvolutionNamesWhatIsWrong) {
  EXPECT_EQ(ErrorOf({{"", Conv2d{.out = 4, .kernel = 3, .groups = 2}}}),
            "layer 'conv2d0' (conv2d): groups is 2; it must divide the 1 channels of the input and "
            "the 4 of the output");
  EXPECT_EQ(ErrorOf({{"", Conv2d{.out = 4, .kernel = 9, .dilation = 4}}}),
            "layer 'conv2d0' (conv2d): kernel 9x9 of dilation 4 with padding 0 does not fit, as "
            "the data gives 1x28x28");
  EXPECT_EQ(ErrorOf({{"", Conv1d{.out = 4, .kernel = 9}}}),
            "layer 'conv1d0' (conv1d): needs channels x places, but the data gives 1x28x28; "
            "give samples of two axes as kind: arrays");
}

TEST(ShapeCheckTest, ALayerTakesTheInputThatItNames) {
  const std::vector<LayerSpec> layers = {{"a", Conv2d{.out = 4, .kernel = 3}},
                                         {"b", Flatten{}},
                                         {"c", Flatten{}, "a"},
                                         {"d", Add{"b"}}};
  const auto checked = *CheckShapes(layers, kImage);
  EXPECT_EQ(checked[0].giver, CheckedLayer::kData);
  EXPECT_EQ(checked[1].giver, 0);
  EXPECT_EQ(checked[2].giver, 0);
  EXPECT_EQ(checked[2].in, (Shape{4, 26, 26}));
  EXPECT_EQ(checked[3].giver, 2);
}

TEST(ShapeCheckTest, ALinearLayerAtTheEndHasAnOutputForEachClass) {
  const std::vector<LayerSpec> layers = {{"", Flatten{}}, {"", Linear{}}};
  EXPECT_EQ((*CheckClassifier(layers, kImage, 37))[1].out, (Shape{37}));
  EXPECT_EQ(ErrorOf(layers), "layer 'linear1' (linear): out is 0 or missing; it must be above 0");
}

// The counts of torchvision's models, running statistics left out.
TEST(ShapeCheckTest, ResidualNetworksHaveTheShapesOfTorchvisions) {
  for (const char* name : {"resnet18", "resnet34", "resnet50"}) {
    const auto layers = *CheckClassifier(*Preset(name), {3, 224, 224}, 1000);
    const Shape pooled = layers[layers.size() - 4].out;
    EXPECT_EQ(pooled, (Shape{std::string(name) == "resnet50" ? 2048 : 512, 7, 7})) << name;
    const auto small = *CheckClassifier(*Preset(std::string(name) + "-cifar"), {3, 32, 32}, 10);
    EXPECT_EQ(small[small.size() - 4].out[1], 4) << name;
  }
}

TEST(ShapeCheckTest, DefaultNamesStayAsInEarlierWeightFiles) {
  EXPECT_EQ(DefaultName(Conv2d{}, 0), "conv2d0");
  EXPECT_EQ(DefaultName(LayerNorm{}, 12), "layer_norm12");
  EXPECT_EQ(KindName(LayerNorm{}), "layerNorm");
}

TEST(ShapeCheckTest, AMisfitNamesTheLayerAndBothShapes) {
  std::vector<LayerSpec> layers = CnnPreset();
  std::get<Linear>(layers[7].kind).in = 100;
  EXPECT_EQ(ErrorOf(layers),
            "layer 'linear7' (linear): in is 100, but 'flatten6' gives 1568 features");
}

TEST(ShapeCheckTest, AConvolutionNamesTheChannelsItGets) {
  EXPECT_EQ(ErrorOf({{"stem", Conv2d{.in = 3, .out = 8, .kernel = 3}}}),
            "layer 'stem' (conv2d): in is 3, but the data gives 1 channels (1x28x28)");
}

TEST(ShapeCheckTest, ALinearLayerWantsAFlatInput) {
  EXPECT_EQ(ErrorOf({{"", Linear{.out = 10}}}),
            "layer 'linear0' (linear): needs a flat input, but the data gives 1x28x28");
}

TEST(ShapeCheckTest, AnImageLayerRefusesAFlatInput) {
  EXPECT_THAT(ErrorOf({{"", Flatten{}}, {"", MaxPool2d{.kernel = 2}}}),
              HasSubstr("'max_pool2d1' (maxPool2d): needs channels x rows x columns, but "
                        "'flatten0' gives 784 features"));
}

TEST(ShapeCheckTest, AWindowLargerThanTheImageDoesNotFit) {
  EXPECT_THAT(ErrorOf({{"", MaxPool2d{.kernel = 29}}}), HasSubstr("kernel 29x29"));
}

TEST(ShapeCheckTest, RefusesFaultsToo) {
  EXPECT_EQ(ErrorOf({{"", Dropout{1.0}}}),
            "layer 'dropout0' (dropout): p is 1; it must be at least 0 and below 1");
}

TEST(ShapeCheckTest, RefusesSizesThatNoMemoryHolds) {
  EXPECT_THAT(ErrorOf({{"", Flatten{}}, {"", Linear{.out = 2000000000}}}),
              HasSubstr("too many weights"));
  EXPECT_THAT(ErrorOf({{"", Conv2d{.out = 1, .kernel = 1, .padding = 1000000000}}}),
              HasSubstr("more than"));
}

TEST(ShapeCheckTest, AClassifierEndsInItsClasses) {
  const std::vector<LayerSpec> layers = {{"", Flatten{}}};
  EXPECT_EQ(CheckClassifier(layers, kImage, 10).status().message(),
            "the last layer 'flatten0' (flatten) gives 784 features, but the data has 10 classes");
}

std::string TextErrorOf(std::vector<LayerSpec> layers, int vocabulary = 50) {
  return std::string(CheckLanguageModel(layers, 8, vocabulary).status().message());
}

const LayerSpec kWte = {"wte", Embedding{.features = 12}};

TEST(LanguageModelTest, Gpt2HasTheParametersThatItsNameSays) {
  const auto layers = *CheckLanguageModel(*Preset("gpt2-124m"), 1024, 50257);
  EXPECT_EQ(layers.front().out, (Shape{1024, 768}));
  EXPECT_EQ(layers.back().out, (Shape{1024, 50257}));
  EXPECT_EQ(layers.size(), 2u + 12 * 10 + 2);
}

TEST(LanguageModelTest, AnOpenVocabularyIsTheData) {
  const auto layers = *CheckLanguageModel(*Preset("gpt"), 64, 256);
  EXPECT_EQ(std::get<Embedding>(layers[0].kind).vocabulary, 256);
  EXPECT_EQ(layers.back().out, (Shape{64, 256}));
}

TEST(LanguageModelTest, ItBeginsWithAnEmbeddingOfEveryToken) {
  EXPECT_EQ(TextErrorOf({{"", Linear{.out = 4}}}),
            "the first layer 'linear0' (linear) gets tokens; it must be an embedding");
  EXPECT_EQ(TextErrorOf({{"wte", Embedding{.vocabulary = 49, .features = 4}}}),
            "layer 'wte' (embedding): vocabulary is 49, but the data's tokens are 0 to 49");
  EXPECT_THAT(TextErrorOf({kWte, {"", Embedding{.features = 4}}}),
              HasSubstr("must be the first layer, but it stands after 'wte'"));
}

TEST(LanguageModelTest, ItEndsInAValueForEachToken) {
  EXPECT_EQ(TextErrorOf({kWte, {"", Linear{.out = 49}}}),
            "the last layer 'linear1' (linear) gives 8x49, but there are 8 tokens of 50 kinds: it "
            "must give 8x50 or more kinds");
  EXPECT_EQ(TextErrorOf({kWte, {"", TiedLinear{"wte"}}}), "");
}

TEST(LanguageModelTest, HeadsShareQueriesKeysAndValuesEvenly) {
  EXPECT_THAT(TextErrorOf({kWte, {"", CausalAttention{.heads = 3}}}),
              HasSubstr("for each of 3 heads, but 'wte' gives 8x12"));
  EXPECT_THAT(ErrorOf({{"", CausalAttention{.heads = 1}}}), HasSubstr("needs tokens x features"));
}

TEST(LanguageModelTest, AnAddNamesALayerOfTheSameShape) {
  EXPECT_THAT(TextErrorOf({kWte, {"", Linear{.out = 5}}, {"", Add{"wte"}}}),
              HasSubstr("'linear1' gives 8x5, but 'wte' gives 8x12"));
}

TEST(LanguageModelTest, AnEmbeddingIsTiedToItsOwnSize) {
  EXPECT_THAT(TextErrorOf({kWte, {"a", Linear{.out = 5}}, {"b", TiedLinear{"wte"}}}),
              HasSubstr("'wte' has 12 features, but 'a' gives 8x5"));
}

// Gives the shape that it is told to.
class Giving final : public PluginKind {
 public:
  explicit Giving(Shape out) : out_(std::move(out)) {}

  absl::StatusOr<std::unique_ptr<PluginLayer>> Make(const std::vector<PluginValue>&,
                                                    const PluginPlace& place) const override {
    if (place.in == out_) return absl::InvalidArgumentError("told to fail");
    return std::make_unique<Layer>(out_);
  }

 private:
  class Layer final : public PluginLayer {
   public:
    explicit Layer(Shape out) : out_(std::move(out)) {}
    const Shape& out() const override { return out_; }
    const std::vector<PluginParameter>& parameters() const override { return parameters_; }
    absl::Status Forward(const DpPluginForward&) override { return absl::OkStatus(); }
    absl::Status Backward(const DpPluginBackward&) override { return absl::OkStatus(); }

   private:
    const Shape out_;
    const std::vector<PluginParameter> parameters_ = {{.name = "weight", .shape = out_}};
  };

  const Shape out_;
};

LayerSpec GivingLayer(const Shape& out) {
  return {"mine", Plugin{.library = "/l.so", .loaded = std::make_shared<Giving>(out)}};
}

TEST(PluginShapeTest, APluginSaysWhatItGives) {
  const auto layers = *CheckShapes({GivingLayer({8, 12}), {"", Attention{.heads = 2}}}, kImage);
  EXPECT_EQ(layers[0].out, (Shape{8, 12}));
  EXPECT_EQ(layers[0].plugin_parameters.at(0).name, "weight");
  EXPECT_EQ(layers[1].out, (Shape{8, 4}));
  EXPECT_EQ(ErrorOf({GivingLayer(kImage)}), "layer 'mine' (plugin): told to fail");
  EXPECT_THAT(ErrorOf({GivingLayer({1 << 15, 1 << 15})}), HasSubstr("has more than"));
}

TEST(PluginShapeTest, APluginThatIsNotLoadedHasNoShape) {
  EXPECT_EQ(ErrorOf({{"mine", Plugin{"/l.so"}}}),
            "layer 'mine' (plugin): its library '/l.so' is not loaded; only training jobs load "
            "plug-ins");
}

TEST(PluginShapeTest, AModelOfTextsMayBeginWithAPlugin) {
  EXPECT_EQ(TextErrorOf({GivingLayer({8, 50})}), "");
}

}  // namespace
}  // namespace dp::model

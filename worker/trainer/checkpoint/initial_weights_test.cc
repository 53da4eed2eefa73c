#include "worker/trainer/checkpoint/initial_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "proto/weights/safetensors.h"

namespace dp::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file with one tensor of any type, as its bytes.
std::string FileOf(const std::string& name, const std::string& type, const std::string& shape,
                   const std::string& bytes) {
  std::string header = "{\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape +
                       ",\"data_offsets\":[0," + std::to_string(bytes.size()) + "]}}";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + bytes;
}

template <typename Number>
std::string BytesOf(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

class InitialWeightsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> Take(const std::vector<NamedTensor>& tensors,
                                   const std::vector<std::string>& drawn = {}) {
    return TakeFile(EncodeSafetensors(tensors), drawn);
  }
  absl::StatusOr<std::string> TakeFile(const std::string& file,
                                       const std::vector<std::string>& drawn = {}) {
    layout_ = engine::LayOut(layers_);
    values_.assign(static_cast<size_t>(layout_.size), -1.0f);
    return TakeInitialWeights(file, drawn, layers_, absl::MakeSpan(values_));
  }
  std::vector<float> Of(const std::string& name) const {
    for (const engine::Parameter& p : layout_.parameters) {
      if (p.name != name) continue;
      return {values_.begin() + p.offset, values_.begin() + p.offset + p.size};
    }
    return {};
  }

  std::vector<model::CheckedLayer> layers_ =
      *model::CheckShapes({{{"fc", model::Linear{.out = 2}}}}, {3});
  const std::vector<float> six_ = {1, 2, 3, 4, 5, 6};
  const std::vector<float> two_ = {7, 8};
  engine::ParameterLayout layout_;
  std::vector<float> values_;
};

TEST_F(InitialWeightsTest, TensorsGoToTheirNames) {
  EXPECT_EQ(*Take({{"fc.bias", {2}, two_}, {"fc.weight", {2, 3}, six_}}), "2 tensors");
  EXPECT_EQ(Of("fc.weight"), six_);
  EXPECT_EQ(Of("fc.bias"), two_);
}

TEST_F(InitialWeightsTest, NamesMayHaveAPrefixAndTheFileMayHaveMore) {
  EXPECT_EQ(*Take({{"module.fc.bias", {2}, two_},
                   {"module.fc.weight", {2, 3}, six_},
                   {"other.fc.weight", {2, 3}, six_},
                   {"z", {2}, two_}}),
            "2 tensors; not taken: other.fc.weight, z");
  EXPECT_EQ(Of("fc.bias"), two_);
}

TEST_F(InitialWeightsTest, AMissingTensorIsNamedWithWhatTheFileHas) {
  const auto taken = Take({{"head.bias", {2}, two_}, {"head.weight", {2, 3}, six_}});
  EXPECT_EQ(
      taken.status().message(),
      "there is no tensor 'fc.bias'; the file has head.bias, head.weight; to draw it instead, "
      "name it in train.init.drawn");
}

TEST_F(InitialWeightsTest, AnotherShapeIsNamedWithBoth) {
  const auto taken = Take({{"fc.bias", {2}, two_}, {"fc.weight", {3, 2}, six_}});
  EXPECT_EQ(taken.status().message(),
            "tensor 'fc.weight' is 3x2, but the model's is 2x3; to draw it instead, name it in "
            "train.init.drawn");
}

TEST_F(InitialWeightsTest, TensorsThatAreDrawnStay) {
  EXPECT_EQ(*Take({{"fc.bias", {2}, two_}}, {"*.weight"}), "1 tensor");
  EXPECT_EQ(Of("fc.bias"), two_);
  EXPECT_EQ(Of("fc.weight"), std::vector<float>(6, -1.0f));
  EXPECT_THAT(std::string(Take({{"fc.bias", {2}, two_}}, {"fc.*"}).status().message()),
              HasSubstr("matches every tensor of the model"));
}

TEST_F(InitialWeightsTest, APatternThatMatchesNothingIsNamed) {
  const auto taken = Take({{"fc.bias", {2}, two_}, {"fc.weight", {2, 3}, six_}}, {"head.*"});
  EXPECT_EQ(taken.status().message(),
            "train.init.drawn has 'head.*', which matches no tensor of the model; it has fc.bias, "
            "fc.weight");
}

TEST_F(InitialWeightsTest, OtherTypesAreConverted) {
  const std::vector<std::string> drawn = {"fc.weight"};
  ASSERT_TRUE(TakeFile(FileOf("fc.bias", "F64", "[2]", BytesOf<double>({0.5, -3})), drawn).ok());
  EXPECT_THAT(Of("fc.bias"), ElementsAre(0.5f, -3.0f));
  ASSERT_TRUE(
      TakeFile(FileOf("fc.bias", "BF16", "[2]", BytesOf<uint16_t>({0x3f80, 0xc040})), drawn).ok());
  EXPECT_THAT(Of("fc.bias"), ElementsAre(1.0f, -3.0f));
  // 1 and the smallest number above zero; then -2 and the largest.
  ASSERT_TRUE(
      TakeFile(FileOf("fc.bias", "F16", "[2]", BytesOf<uint16_t>({0x3c00, 1})), drawn).ok());
  EXPECT_THAT(Of("fc.bias"), ElementsAre(1.0f, 0x1p-24f));
  ASSERT_TRUE(
      TakeFile(FileOf("fc.bias", "F16", "[2]", BytesOf<uint16_t>({0xc000, 0x7bff})), drawn).ok());
  EXPECT_THAT(Of("fc.bias"), ElementsAre(-2.0f, 65504.0f));
  ASSERT_TRUE(
      TakeFile(FileOf("fc.bias", "F16", "[2]", BytesOf<uint16_t>({0x7c00, 0x7e00})), drawn).ok());
  EXPECT_TRUE(std::isinf(Of("fc.bias")[0]) && std::isnan(Of("fc.bias")[1]));
}

TEST_F(InitialWeightsTest, ATensorOfWholeNumbersIsNoWeight) {
  const auto taken =
      TakeFile(FileOf("fc.bias", "I32", "[2]", BytesOf<int32_t>({1, 2})), {"*.weight"});
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr("'fc.bias' is of type I32"));
}

TEST_F(InitialWeightsTest, NoSafetensorsFileIsAnError) {
  EXPECT_TRUE(absl::IsInvalidArgument(TakeFile("PK and the rest of a zip file").status()));
}

// In files of Hugging Face's GPT-2 every such matrix is transposed, square ones too.
TEST_F(InitialWeightsTest, MatricesOfGpt2MayBeInputsTimesOutputs) {
  layers_ = *model::CheckShapes({{{"a.c_fc", model::Linear{.out = 3, .bias = false}},
                                  {"a.c_proj", model::Linear{.out = 3, .bias = false}}}},
                                {2});
  const std::vector<float> nine = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  ASSERT_TRUE(Take({{"transformer.a.c_fc.weight", {2, 3}, six_},
                    {"transformer.a.c_proj.weight", {3, 3}, nine}})
                  .ok());
  EXPECT_THAT(Of("a.c_fc.weight"), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(Of("a.c_proj.weight"), ElementsAre(1, 4, 7, 2, 5, 8, 3, 6, 9));
  ASSERT_TRUE(Take({{"a.c_fc.weight", {3, 2}, six_}, {"a.c_proj.weight", {3, 3}, nine}}).ok());
  EXPECT_EQ(Of("a.c_fc.weight"), six_);
  EXPECT_EQ(Of("a.c_proj.weight"), nine);
}

TEST_F(InitialWeightsTest, PositionsBeyondTheContextAreLeft) {
  layers_ = *model::CheckLanguageModel({{{"wte", model::Embedding{.features = 2}},
                                         {"wpe", model::Positions{}},
                                         {"lm_head", model::Linear{.bias = false}}}},
                                       2, 3);
  ASSERT_TRUE(Take({{"wte.weight", {3, 2}, six_},
                    {"wpe.weight", {3, 2}, six_},
                    {"lm_head.weight", {3, 2}, six_}})
                  .ok());
  EXPECT_THAT(Of("wpe.weight"), ElementsAre(1, 2, 3, 4));
  EXPECT_FALSE(Take({{"wte.weight", {3, 2}, six_},
                     {"wpe.weight", {1, 2}, two_},
                     {"lm_head.weight", {3, 2}, six_}})
                   .ok());
}

}  // namespace
}  // namespace dp::trainer

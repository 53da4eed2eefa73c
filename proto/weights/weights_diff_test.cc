#include "proto/weights/weights_diff.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace dp {
namespace {

using Kind = TensorDifference::Kind;

// Its memory lives as long as the program.
template <typename Element>
EncodedTensor Tensor(const std::string& type, const std::vector<Element>& elements) {
  const auto& kept = *new std::string(reinterpret_cast<const char*>(elements.data()),
                                      elements.size() * sizeof(Element));
  return {type, {static_cast<int64_t>(elements.size())}, kept};
}

TensorDifference Compare(const EncodedTensor& a, const EncodedTensor& b) {
  return CompareTensors({{"w", a}}, {{"w", b}}).at(0);
}

TEST(WeightsDiffTest, EqualBitsAreEqual) {
  const auto difference = Compare(Tensor<float>("F32", {1, -2}), Tensor<float>("F32", {1, -2}));
  EXPECT_EQ(difference.kind, Kind::kEqual);
  EXPECT_EQ(difference.differing, 0);
}

TEST(WeightsDiffTest, DifferencesAreTheLargestOfAllElements) {
  const auto difference =
      Compare(Tensor<float>("F32", {1, 100, 0}), Tensor<float>("F32", {2, 103, 0}));
  EXPECT_EQ(difference.kind, Kind::kDiffers);
  EXPECT_EQ(difference.max_absolute, 3);
  EXPECT_EQ(difference.max_relative, 0.5);
  EXPECT_EQ(difference.differing, 2);
}

TEST(WeightsDiffTest, ZeroesOfEitherSignDifferInTheirBitsAlone) {
  const auto difference = Compare(Tensor<float>("F32", {0.0f}), Tensor<float>("F32", {-0.0f}));
  EXPECT_EQ(difference.kind, Kind::kDiffers);
  EXPECT_EQ(difference.max_absolute, 0);
  EXPECT_EQ(difference.differing, 0);
}

TEST(WeightsDiffTest, ANanIsFarFromEveryNumberAndNotFromANan) {
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(
      std::isinf(Compare(Tensor<float>("F32", {nan}), Tensor<float>("F32", {1})).max_absolute));
  EXPECT_TRUE(std::isinf(
      Compare(Tensor<float>("F32", {infinity}), Tensor<float>("F32", {1})).max_relative));
  EXPECT_EQ(Compare(Tensor<float>("F32", {nan}), Tensor<float>("F32", {-nan})).differing, 0);
}

TEST(WeightsDiffTest, OtherTypesAreComparedByTheirValues) {
  const auto difference =
      Compare(Tensor<float>("F32", {1.5f, -0.25f}), Tensor<uint16_t>("F16", {0x3e00, 0xb400}));
  EXPECT_EQ(difference.kind, Kind::kDiffers);
  EXPECT_EQ(difference.differing, 0);
  EXPECT_EQ(difference.in_b, "F16 2");
  EXPECT_EQ(Compare(Tensor<uint16_t>("BF16", {0x3fc0}), Tensor<double>("F64", {1.5})).differing, 0);
  EXPECT_EQ(Compare(Tensor<int64_t>("I64", {7}), Tensor<int64_t>("I64", {9})).max_absolute, 2);
}

TEST(WeightsDiffTest, MissingTensorsAndOtherShapesAreSaid) {
  const auto a = Tensor<float>("F32", {1}), b = Tensor<float>("F32", {1, 2});
  const auto differences = CompareTensors({{"a", a}, {"both", a}}, {{"b", a}, {"both", b}});
  ASSERT_EQ(differences.size(), 3u);
  EXPECT_EQ(differences[0].kind, Kind::kOnlyInA);
  EXPECT_EQ(differences[1].kind, Kind::kOnlyInB);
  EXPECT_EQ(differences[2].kind, Kind::kShape);
  EXPECT_EQ(differences[2].in_a, "F32 1");
}

}  // namespace
}  // namespace dp

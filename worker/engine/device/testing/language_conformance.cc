#include <algorithm>
#include <numeric>

#include "worker/engine/device/testing/device_conformance.h"

namespace dp::engine {
namespace {

constexpr float kTextStep = 1.0f / 256;
constexpr double kTextSlopeTolerance = 0.01;

void ExpectTextGradientsAreSlopes(const std::vector<model::LayerSpec>& specs,
                                  const DeviceUnderTest& device) {
  Bench(device, TextModel(specs)).ExpectGradientsAreSlopes(kTextStep, kTextSlopeTolerance);
}

// An embedding, the layers under test, and an output layer.
std::vector<model::LayerSpec> Between(std::vector<model::LayerSpec> layers) {
  layers.insert(layers.begin(), {"wte", model::Embedding{.features = 6}});
  layers.push_back({"out", model::Linear{.out = kVocabulary}});
  return layers;
}

// Heads of 8 features, as fused attention in bf16 requires.
Bench::Model GptOfWideHeads() {
  return TextModel(model::Gpt({.blocks = 1, .heads = 2, .features = 16}));
}

TEST_P(LanguageModelConformance, GradientsFlowIntoAnEmbeddingAndPositions) {
  ExpectTextGradientsAreSlopes(Between({{"", model::Positions{}}}), GetParam());
}

TEST_P(LanguageModelConformance, GradientsFlowIntoPositionsBehindAnyLayer) {
  ExpectTextGradientsAreSlopes(Between({{"", model::Gelu{}}, {"", model::Positions{}}}),
                               GetParam());
}

TEST_P(LanguageModelConformance, GradientsFlowThroughALayerNorm) {
  ExpectTextGradientsAreSlopes(Between({{"", model::LayerNorm{}}}), GetParam());
}

TEST_P(LanguageModelConformance, GradientsFlowThroughAGelu) {
  ExpectTextGradientsAreSlopes(Between({{"", model::Linear{.out = 9}}, {"", model::Gelu{}}}),
                               GetParam());
}

TEST_P(LanguageModelConformance, GradientsFlowThroughAttention) {
  ExpectTextGradientsAreSlopes(
      Between({{"", model::Linear{.out = 12}}, {"", model::CausalAttention{2}}}), GetParam());
}

TEST_P(LanguageModelConformance, GradientsFlowRoundLayersAndThroughThem) {
  ExpectTextGradientsAreSlopes(Between({{"a", model::Linear{.out = 6}},
                                        {"b", model::Relu{}},
                                        {"", model::Add{"wte"}},
                                        {"", model::Add{"a"}},
                                        {"", model::Add{"b"}},
                                        {"", model::Add{"wte"}}}),
                               GetParam());
}

TEST_P(LanguageModelConformance, ALayerCanBeAddedToItself) {
  ExpectTextGradientsAreSlopes(
      Between({{"a", model::Linear{.out = 6}}, {"", model::Add{"a"}}, {"", model::LayerNorm{}}}),
      GetParam());
}

TEST_P(LanguageModelConformance, ATiedWeightGetsTheGradientsOfBothItsUses) {
  const std::vector<model::LayerSpec> tied = {{"wte", model::Embedding{.features = 6}},
                                              {"", model::Gelu{}},
                                              {"", model::TiedLinear{"wte"}}};
  EXPECT_EQ(LayOut(TextModel(tied).layers).parameters.size(), 1u);
  ExpectTextGradientsAreSlopes(tied, GetParam());
}

TEST_P(LanguageModelConformance, GradientsOfAGptAreTheSlopesOfTheLoss) {
  ExpectTextGradientsAreSlopes(SmallGpt(), GetParam());
}

TEST_P(LanguageStepConformance, GradientsBecomeReadyInLayoutOrderAndATiedOneLast) {
  Bench bench(GetParam(), TextModel(SmallGpt()));
  bench.Forward();
  std::vector<int> order(bench.layout().parameters.size());
  std::iota(order.begin(), order.end(), 0);
  EXPECT_EQ(bench.Backward(), order);
  EXPECT_EQ(bench.layout().parameters.back().name, "wte.weight");
}

TEST_P(LanguageStepConformance, ATokenDoesNotSeeThoseBehindIt) {
  Bench bench(GetParam(), GptOfWideHeads());
  bench.Forward();
  const std::vector<float> before = bench.Logits();
  float& token = bench.images_[3];
  token = static_cast<float>((static_cast<int>(token) + 1) % kVocabulary);
  bench.Forward();
  const std::vector<float> after = bench.Logits();
  const size_t seen = 3 * kVocabulary, of_sample = kTokens * kVocabulary;
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + seen, after.begin()));
  EXPECT_NE(before[of_sample - 1], after[of_sample - 1]);
}

TEST_P(LanguageStepConformance, PaddedSamplesAddNothingWhateverTheyHold) {
  Bench bench(GetParam(), GptOfWideHeads());
  bench.count_ = 2;
  const double loss = bench.Forward().loss_sum;
  bench.Backward();
  const std::vector<float> gradients = bench.Gradients();
  std::fill(bench.images_.begin() + 2 * kTokens, bench.images_.end(), -9.0f);
  bench.labels_.back() = -1;
  const BatchResult padded = bench.Forward();
  EXPECT_EQ(padded.loss_sum, loss);
  EXPECT_EQ(padded.count, 2);
  bench.Backward();
  EXPECT_EQ(bench.Gradients(), gradients);
}

TEST_P(LanguageStepConformance, TrainingLowersTheLossWithTheSameBitsEachTime) {
  Bench bench(GetParam(), GptOfWideHeads());
  const double before = bench.Forward().loss_sum;
  const std::vector<float> values = bench.TrainByAdamW(60);
  EXPECT_LT(bench.Forward().loss_sum, 0.3 * before);
  EXPECT_EQ(Bench(GetParam(), GptOfWideHeads()).TrainByAdamW(60), values);
}

}  // namespace
}  // namespace dp::engine

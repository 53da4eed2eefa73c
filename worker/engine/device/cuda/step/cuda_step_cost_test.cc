#include "worker/engine/device/cuda/step/cuda_step_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp::engine::cuda {
namespace {

// Products and memory are equally fast: 1 byte or flop a second.
constexpr CardRates kSlow = {.bytes = 1, .flops = 1, .attention_flops = 1};

LayerProgram Gpt2(int batch, Precision precision) {
  return PlanLayers(*model::CheckLanguageModel(*model::Preset("gpt2-124m"), 1024, 50257),
                    {.network = {.batch_size = batch, .precision = precision}});
}

const CostRow& Find(const std::vector<CostRow>& rows, absl::string_view name) {
  for (const CostRow& row : rows) {
    if (row.name == name) return row;
  }
  static const CostRow none;
  ADD_FAILURE() << "no row " << name;
  return none;
}

TEST(CudaStepCostTest, AConvolutionWithItsNormIsCountedByHand) {
  const LayerProgram program = PlanLayers(
      *model::CheckShapes(
          {{"",
            model::Conv2d{
                .out = 8, .kernel = 3, .padding = 2, .bias = false, .groups = 2, .dilation = 2}},
           {"", model::BatchNorm{}},
           {"", model::Relu{}},
           {"", model::AvgPool2d{.kernel = 2}},
           {"", model::Flatten{}},
           {"", model::Linear{.out = 3}}},
          {4, 6, 6}),
      {.network = {.batch_size = 10}});
  const std::vector<CostRow> rows = StepCosts(program, kSlow, /*state_floats=*/1);
  // 10 x 36 places of 4 and of 8 channels; each output sums the 9 places of 2 channels.
  const CostRow& conv = Find(rows, "convolve");
  EXPECT_EQ(conv.cost.bytes, (10 * 36 * 4 + 8 * 2 * 9 + 10 * 36 * 8) * 4);
  EXPECT_EQ(conv.cost.flops, 2 * 10 * 36 * 8 * 2 * 9);
  EXPECT_EQ(Find(rows, "batch norm relu").cost.bytes, 3 * 10 * 36 * 8 * 4);
  // Input, gradient and output twice; the input's gradient once.
  EXPECT_EQ(Find(rows, "batch norm relu gradient").cost.bytes, 7 * 10 * 36 * 8 * 4);
  EXPECT_EQ(Find(rows, "mean pool").cost.bytes, 10 * (36 + 9) * 8 * 4);
  EXPECT_EQ(Find(rows, "pass statistics").cost.bytes, 4 * 8 * 4);
}

TEST(CudaStepCostTest, AMlpIsCountedByHand) {
  const LayerProgram program = PlanLayers(*model::CheckShapes({{"", model::Flatten{}},
                                                               {"", model::Linear{.out = 8}},
                                                               {"", model::Relu{}},
                                                               {"", model::Linear{.out = 3}}},
                                                              {1, 4, 4}),
                                          {.network = {.batch_size = 10}});
  const std::vector<CostRow> rows = StepCosts(program, kSlow, /*state_floats=*/1);
  // 10 x 16 pixels of a byte and 10 labels of a byte, each to 4.
  EXPECT_EQ(rows.front().name, "gather");
  EXPECT_EQ(rows.front().cost.bytes, (160 + 10) * 5);
  EXPECT_EQ(rows.front().cost.launches, 1);
  // 10 x 16 in, 16 x 8 weights, 10 x 8 out.
  const CostRow& hidden = Find(rows, "linear bias relu");
  EXPECT_EQ(hidden.cost.bytes, 4 * (160 + 128 + 80));
  EXPECT_EQ(hidden.cost.flops, 2 * 10 * 16 * 8);
  EXPECT_EQ(hidden.seconds, 2 * 10 * 16 * 8);
  EXPECT_EQ(Find(rows, "cross entropy in place").cost.bytes, 4 * 2 * 30);
  EXPECT_EQ(Find(rows, "cross entropy in place").seconds, 4 * 2 * 30);
  // The gradient of 10 x 8 is read and written, the ReLU's output is read.
  EXPECT_EQ(Find(rows, "relu bias gradient").cost.bytes, 4 * 3 * 80);
  EXPECT_EQ(Find(rows, "relu bias gradient").cost.launches, 1);
  EXPECT_EQ(Find(rows, "linear weight gradient").cost.bytes, 4 * (160 + 80 + 128));
  // Parameters begin at multiples of 16 floats: 128, 8, 24 and 3 of them.
  EXPECT_EQ(Find(rows, "optimizer").cost.bytes, (128 + 16 + 32 + 16) * 4 * 5);
  EXPECT_EQ(Find(rows, "optimizer").cost.launches, 1);
}

TEST(CudaStepCostTest, AnEpilogueThatIsAKernelOfItsOwnMovesMoreAndTakesItsTimeBesides) {
  const LayerProgram program = PlanLayers(*model::CheckShapes({{"", model::Flatten{}},
                                                               {"", model::Linear{.out = 8}},
                                                               {"", model::Gelu{}},
                                                               {"", model::Linear{.out = 3}}},
                                                              {1, 4, 4}),
                                          {.network = {.batch_size = 10}});
  CardRates apart = kSlow;
  apart.fused = false;
  const std::vector<CostRow> fused = StepCosts(program, kSlow, 1),
                             rows = StepCosts(program, apart, 1);
  const auto more = [&](absl::string_view name) {
    EXPECT_EQ(Find(rows, name).cost.bytes, Find(fused, name).cost.bytes) << name;
    return Find(rows, name).seconds - Find(fused, name).seconds;
  };
  EXPECT_EQ(more("linear bias gelu"), 4 * 80);                // reads the GELU's input again
  EXPECT_EQ(more("linear input gelu gradient"), 4 * 2 * 80);  // reads and writes the product
  EXPECT_EQ(more("cross entropy in place"), 0);
  EXPECT_EQ(more("optimizer"), 0);
}

TEST(CudaStepCostTest, AConvolutionIsCountedByHand) {
  const LayerProgram program =
      PlanLayers(*model::CheckClassifier(model::CnnPreset(), {1, 28, 28}, 10),
                 {.network = {.batch_size = 2, .precision = Precision::kBfloat16}});
  const std::vector<CostRow> rows = StepCosts(program, kSlow, 1);
  const CostRow& forward = Find(rows, "convolve bias relu");
  EXPECT_EQ(forward.count, 2);
  EXPECT_EQ(forward.cost.flops, 2 * 2 * (784 * 16 * 9 + 196 * 32 * 16 * 9));
  EXPECT_EQ(forward.cost.bytes,
            2 * (2 * (784 + 784 * 16) + 144 + 2 * (196 * 16 + 196 * 32) + 32 * 16 * 9));
  EXPECT_EQ(Find(rows, "convolution input gradient").cost.flops, 2 * 2 * 196 * 32 * 16 * 9);
}

// Six flops for each weight of a product and each token, and seven halves of a product for causal
// attention. Utilisation is reported relative to these counts.
TEST(CudaStepCostTest, ProductsOfGpt2AreSixAWeightAndToken) {
  const LayerProgram program = Gpt2(4, Precision::kBfloat16);
  int64_t products = 0, attention = 0;
  for (const CostRow& row : StepCosts(program, kSlow, 2)) {
    (row.name.find("attend") == std::string::npos ? products : attention) += row.cost.flops;
  }
  const int64_t tokens = 4 * 1024;
  EXPECT_EQ(products, 6 * tokens * (12 * 12 * 768 * 768 + int64_t{50304} * 768));
  EXPECT_EQ(attention, 7 * tokens * 1024 * 768 * 12);
}

TEST(CudaStepCostTest, TheLossMovesLogitsTwiceAndTheNormsFourArrays) {
  const std::vector<CostRow> rows = StepCosts(Gpt2(4, Precision::kBfloat16), kSlow, 2);
  EXPECT_EQ(Find(rows, "cross entropy in place").cost.bytes, int64_t{2} * 4096 * 50304 * 2);
  const CostRow& norms = Find(rows, "add norm");
  EXPECT_EQ(norms.count, 24);
  EXPECT_EQ(norms.cost.bytes, 24 * (4 * 4096 * 768 * 2 + 2 * 4096 * 4));
  const int64_t values = Gpt2(4, Precision::kBfloat16).layout.size;
  EXPECT_EQ(Find(rows, "optimizer").cost.bytes, values * 30);
}

// Tokens of 2 bytes become tokens and labels of 4. AdamW's factors take a launch of their own.
TEST(CudaStepCostTest, TheGatherAndTheOptimizersFactorsAreLaunchesOfAStep) {
  const std::vector<CostRow> rows = StepCosts(Gpt2(4, Precision::kBfloat16), kSlow, 2);
  EXPECT_EQ(Find(rows, "gather").cost.bytes, 4 * 1024 * (2 + 2 * 4));
  EXPECT_EQ(Find(rows, "gather").cost.launches, 1);
  EXPECT_EQ(Find(rows, "optimizer").cost.launches, 2);
}

}  // namespace
}  // namespace dp::engine::cuda

#include "worker/engine/device/cuda/kernels/cuda_adamw_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "worker/engine/device/cuda/kernels/cuda_update_blocks.h"
#include "worker/engine/nn/generator.h"

namespace dp::engine::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// A matrix of 40 values, then a bias of 10, each followed by a gap.
ParameterLayout MatrixAndBias() {
  ParameterLayout layout;
  layout.parameters = {{.name = "m", .shape = {4, 10}, .offset = 0, .size = 40},
                       {.name = "b", .shape = {10}, .offset = 48, .size = 10}};
  layout.size = 64;
  return layout;
}

std::vector<float> Uniform(Generator& generator, int64_t size) {
  std::vector<float> values(size);
  for (float& value : values) value = generator.Uniform(-1, 1);
  return values;
}

UpdateBlocks BlocksOf(const AdamWOptions& options, const ParameterLayout& layout) {
  return UpdateBlocksOf(layout, [&](const Parameter& parameter) {
    return GroupOf(parameter, WeightDecayOf(options, parameter));
  });
}

TEST(CudaAdamWUpdateTest, BlocksOfMatricesDecay) {
  const UpdateBlocks blocks = BlocksOf({.weight_decay = 0.5}, MatrixAndBias());
  EXPECT_THAT(blocks.of_blocks, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(blocks.groups, ElementsAre(UpdateGroup{1, 0.5}, UpdateGroup{1, 0}));
}

TEST(CudaAdamWUpdateTest, AllParametersDecayWhereTheOptionsSaySo) {
  const UpdateBlocks blocks = BlocksOf({.weight_decay = 0.5, .decay_all = true}, MatrixAndBias());
  EXPECT_THAT(blocks.of_blocks, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(blocks.groups, ElementsAre(UpdateGroup{1, 0.5}));
}

void ExpectTenStepsToHaveTheCpusBits(const AdamWOptions& options,
                                     const ParameterLayout& layout = MatrixAndBias()) {
  const UpdateBlocks blocks = BlocksOf(options, layout);
  Generator generator(1);
  std::vector<float> cpu = Uniform(generator, layout.size);
  std::vector<float> ours = cpu;
  std::vector<float> cpu_first(layout.size), cpu_second(layout.size);
  std::vector<float> first(layout.size), second(layout.size);
  for (int64_t step = 1; step <= 10; ++step) {
    const std::vector<float> gradients = Uniform(generator, layout.size);
    AdamWStep(options, step, layout, gradients,
              {absl::MakeSpan(cpu_first), absl::MakeSpan(cpu_second)}, absl::MakeSpan(cpu));
    for (const Parameter& parameter : layout.parameters) {
      for (int64_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
        const UpdateGroup& group = blocks.groups[blocks.of_blocks[i / kUpdateBlock]];
        const AdamWFactors factors = AdamWFactorsOf(options, group, options.learning_rate, step);
        if (!factors.frozen)
          ours[i] = AdamWValue(factors, gradients[i], ours[i], first[i], second[i]);
      }
    }
  }
  EXPECT_THAT(ours, ElementsAreArray(cpu));
  EXPECT_THAT(first, ElementsAreArray(cpu_first));
  EXPECT_THAT(second, ElementsAreArray(cpu_second));
}

TEST(CudaAdamWUpdateTest, TenStepsHaveTheCpusBits) {
  ExpectTenStepsToHaveTheCpusBits({.learning_rate = 3e-3, .weight_decay = 0.1});
}

TEST(CudaAdamWUpdateTest, TenStepsOfAdamHaveTheCpusBits) {
  ExpectTenStepsToHaveTheCpusBits(
      {.learning_rate = 3e-3, .weight_decay = 0.1, .decay_all = true, .decay_in_gradient = true});
}

TEST(CudaAdamWUpdateTest, TenStepsOfGroupsHaveTheCpusBits) {
  ParameterLayout layout = MatrixAndBias();
  layout.parameters[0].options = {.learning_rate_factor = 0.3};
  layout.parameters[1].options = {.learning_rate_factor = 2, .weight_decay = 0.5};
  ExpectTenStepsToHaveTheCpusBits({.learning_rate = 3e-3, .weight_decay = 0.1}, layout);
  layout.parameters[0].options.frozen = true;
  ExpectTenStepsToHaveTheCpusBits({.learning_rate = 3e-3, .weight_decay = 0.1}, layout);
}

TEST(CudaAdamWUpdateTest, GapsStayZero) {
  float first = 0, second = 0;
  const AdamWFactors factors = AdamWFactorsOf({}, {.weight_decay = 0.5}, 1e-3, 1);
  EXPECT_EQ(AdamWValue(factors, 0, 0, first, second), 0);
}

}  // namespace
}  // namespace dp::engine::cuda

#include "worker/engine/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

// tests/interop/sampler_test.py shows that indices equal PyTorch's.

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

GlobalBatchSampler Deal(GlobalBatchOptions options) { return GlobalBatchSampler(options); }

// The samples of one step over all ranks, sorted.
std::vector<int64_t> GlobalBatch(GlobalBatchOptions options, int64_t step) {
  std::vector<int64_t> all;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    const Share share = Deal(options).share(step);
    all.insert(all.end(), share.samples.begin(), share.samples.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(RandomPermutationTest, EqualsTorchRandperm) {
  // torch.randperm(10, generator=torch.Generator().manual_seed(0))
  EXPECT_THAT(RandomPermutation(10, 0), ElementsAre(4, 1, 7, 5, 3, 9, 0, 8, 6, 2));
}

TEST(DistributedSamplerTest, PadsWithTheBeginning) {
  const DistributedSampler sampler{.n = 5, .replicas = 3, .rank = 2, .shuffle = false};
  EXPECT_THAT(sampler.Indices(0), ElementsAre(2, 0));
}

TEST(DistributedSamplerTest, PadsAFewSamplesOverManyReplicas) {
  const DistributedSampler sampler{.n = 2, .replicas = 7, .rank = 6, .shuffle = false};
  EXPECT_THAT(sampler.Indices(0), ElementsAre(0));
}

TEST(DistributedSamplerTest, DropLastCutsToEqualShares) {
  const DistributedSampler sampler{
      .n = 5, .replicas = 3, .rank = 1, .shuffle = false, .drop_last = true};
  EXPECT_THAT(sampler.Indices(0), ElementsAre(1));
}

TEST(GlobalBatchSamplerTest, EveryWorldSizeTakesTheSameGlobalBatches) {
  for (int64_t step = 0; step < 5; ++step) {
    const auto expected = GlobalBatch({.n = 50, .global_batch_size = 11}, step);
    for (int world : {2, 3, 4, 13}) {
      const GlobalBatchOptions options{.n = 50, .global_batch_size = 11, .world_size = world};
      EXPECT_EQ(GlobalBatch(options, step), expected) << "world " << world << " step " << step;
    }
  }
}

TEST(GlobalBatchSamplerTest, AnEpochUsesEverySampleOnce) {
  const GlobalBatchOptions options{.n = 50, .global_batch_size = 11, .world_size = 4};
  std::vector<int64_t> all;
  for (int64_t step = 0; step < Deal(options).steps(); ++step) {
    for (int64_t sample : GlobalBatch(options, step)) all.push_back(sample);
  }
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected(50);
  for (int64_t i = 0; i < 50; ++i) expected[i] = i;
  EXPECT_EQ(all, expected);
}

TEST(GlobalBatchSamplerTest, EqualsDistributedSamplerWhereShapesDivide) {
  GlobalBatchOptions options{.n = 48, .global_batch_size = 12, .rank = 1, .world_size = 3};
  options.seed = 7;
  GlobalBatchSampler sampler(options);
  sampler.SetEpoch(2);
  std::vector<int64_t> dealt;
  for (int64_t step = 0; step < sampler.steps(); ++step) {
    for (int64_t sample : sampler.share(step).samples) dealt.push_back(sample);
  }
  EXPECT_EQ(dealt, (DistributedSampler{.n = 48, .replicas = 3, .rank = 1, .seed = 7}.Indices(2)));
}

TEST(GlobalBatchSamplerTest, TheLastShortBatchLeavesSomeRanksWithoutSamples) {
  const GlobalBatchOptions options{
      .n = 9, .global_batch_size = 8, .rank = 1, .world_size = 4, .shuffle = false};
  EXPECT_EQ(Deal(options).steps(), 2);
  EXPECT_THAT(Deal(options).share(0).samples, ElementsAre(1, 5));
  EXPECT_THAT(Deal(options).share(1).samples, IsEmpty());
  EXPECT_EQ(Deal(options).share(1).global_count, 1);
}

TEST(GlobalBatchSamplerTest, DropLastLeavesOutTheShortBatch) {
  EXPECT_EQ(Deal({.n = 9, .global_batch_size = 8, .drop_last = true}).steps(), 1);
}

TEST(GlobalBatchSamplerTest, CapacityHoldsTheLargestShare) {
  EXPECT_EQ(Deal({.n = 100, .global_batch_size = 10, .rank = 3, .world_size = 4}).capacity(), 3);
}

TEST(GlobalBatchSamplerTest, ScalesMakeTheMeanOverRanksThatOverSamples) {
  // 10 samples of value 1 in shares of 4, 3, 3: the mean over ranks of scaled sums is 1.
  const float scale = GradientScale(10, 3);
  EXPECT_FLOAT_EQ((4 * scale + 3 * scale + 3 * scale) / 3, 1);
}

}  // namespace
}  // namespace dp::engine

#include "worker/engine/collectives/hierarchical/host_plan.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/reduce/block_reduce.h"
#include "worker/engine/collectives/reduce/half_floats.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"
#include "worker/engine/collectives/testing/awkward_values.h"

namespace dp::engine {
namespace {

// "0-3@0 4@1": the ranks of each block, and their host.
std::string BlocksText(std::vector<int> host_of, ReduceOrder order = ReduceOrder::kTree) {
  std::vector<std::string> texts;
  for (const RankBlock& block : HostPlan(std::move(host_of)).BlocksOf(order)) {
    const std::string last = absl::StrCat("-", block.first + block.ranks - 1);
    texts.push_back(absl::StrCat(block.first, block.ranks > 1 ? last : "", "@", block.host));
  }
  return absl::StrJoin(texts, " ");
}

TEST(HostPlanTest, AHostCombinesTheAlignedBlocksThatItHasWhole) {
  EXPECT_EQ(BlocksText({0, 0, 1, 1}), "0-1@0 2-3@1");
  EXPECT_EQ(BlocksText({0, 0, 0, 0, 1, 1, 1, 1}), "0-3@0 4-7@1");
  EXPECT_EQ(BlocksText({0, 0, 0, 1}), "0-1@0 2@0 3@1");
  EXPECT_EQ(BlocksText({0, 1, 1, 1}), "0@0 1@1 2-3@1");
  EXPECT_EQ(BlocksText({0, 0, 0, 0, 1, 1}), "0-3@0 4-5@1");
}

TEST(HostPlanTest, ABlockAtTheEndOfTheRanksNeedNotBeAPowerOfTwo) {
  EXPECT_EQ(BlocksText({0, 0, 0, 0, 1, 1, 1}), "0-3@0 4-6@1");
}

TEST(HostPlanTest, RanksThatAreDealtInTurnTravelOneByOne) {
  EXPECT_EQ(BlocksText({0, 1, 0, 1}), "0@0 1@1 2@0 3@1");
  EXPECT_EQ(BlocksText({0, 1, 1, 0}), "0@0 1@1 2@1 3@0");
}

TEST(HostPlanTest, InRankOrderOnlyTheFirstRanksAreABlock) {
  EXPECT_EQ(BlocksText({0, 0, 0, 1, 1}, ReduceOrder::kRank), "0-2@0 3@1 4@1");
  EXPECT_EQ(BlocksText({0, 1, 1}, ReduceOrder::kRank), "0@0 1@1 2@1");
}

TEST(HostPlanTest, OneHostHasOneBlock) {
  EXPECT_EQ(BlocksText({0, 0, 0, 0, 0}), "0-4@0");
  EXPECT_EQ(BlocksText({0, 0, 0}, ReduceOrder::kRank), "0-2@0");
  EXPECT_TRUE(HostPlan({0, 0}).shares());
  EXPECT_FALSE(HostPlan({0, 1}).shares());
}

TEST(HostPlanTest, DeputiesOfAHostShareTheOwnersElsewhere) {
  const HostPlan plan({0, 1, 0, 1, 0, 1, 1});
  EXPECT_THAT(plan.ranks_of(1), ::testing::ElementsAre(1, 3, 5, 6));
  EXPECT_EQ(plan.HandlerOf(3, 1), 3);
  std::vector<int> deputies;
  for (const int owner : plan.ranks_of(1)) deputies.push_back(plan.HandlerOf(owner, 0));
  EXPECT_THAT(deputies, ::testing::ElementsAre(0, 2, 4, 0));
}

// Ranks on hosts by chance; hosts count in the order in which ranks mention them.
std::vector<int> RandomHosts(int ranks, uint64_t& random) {
  const int hosts = 1 + static_cast<int>(NextRandom(random) % 4);
  const bool in_turn = NextRandom(random) % 4 == 0;
  std::vector<int> drawn, seen, host_of;
  for (int r = 0; r < ranks; ++r)
    drawn.push_back(in_turn ? r % hosts : static_cast<int>(NextRandom(random) % hosts));
  if (NextRandom(random) % 2 == 0) std::sort(drawn.begin(), drawn.end());
  for (const int host : drawn) {
    const auto at = std::find(seen.begin(), seen.end(), host);
    host_of.push_back(static_cast<int>(at - seen.begin()));
    if (at == seen.end()) seen.push_back(host);
  }
  return host_of;
}

// Reduces as the hosts of the plan do: each its blocks, and the owner the blocks of all.
std::vector<uint8_t> ByHosts(const HostPlan& plan, const std::vector<const void*>& inputs,
                             DataType type, size_t count, Reduction reduction) {
  std::vector<std::vector<uint8_t>> sums;
  std::vector<CombinedBlock> combined;
  for (const RankBlock& block : plan.BlocksOf(reduction.order)) {
    sums.emplace_back(count * SizeOf(AccumulatorOf(type)));
    ReduceBlock({inputs.data() + block.first, static_cast<size_t>(block.ranks)}, type, count,
                reduction, sums.back().data());
    combined.push_back({block.ranks, sums.back().data()});
  }
  std::vector<uint8_t> out(count * SizeOf(type));
  ReduceBlocks(combined, type, count, reduction, out.data());
  return out;
}

// The bits of `values` as elements of `type`.
std::vector<uint8_t> BytesOf(const std::vector<float>& values, DataType type) {
  std::vector<uint8_t> bytes;
  for (const float value : values) {
    const Bfloat16 brief = ToBfloat16(value);
    const bool half = type == DataType::kBfloat16;
    const auto* const from =
        half ? reinterpret_cast<const uint8_t*>(&brief) : reinterpret_cast<const uint8_t*>(&value);
    bytes.insert(bytes.end(), from, from + SizeOf(type));
  }
  return bytes;
}

TEST(HostPlanTest, AnyPlacementGivesTheBitsOfOneHost) {
  constexpr size_t kCount = 1500;  // more than one stretch
  uint64_t random = 20;
  for (int round = 0; round < 200; ++round) {
    const int ranks = 2 + static_cast<int>(NextRandom(random) % 18);
    const HostPlan plan(RandomHosts(ranks, random));
    const DataType type = round % 2 == 0 ? DataType::kFloat32 : DataType::kBfloat16;
    const ReduceOrder order = round % 4 < 2 ? ReduceOrder::kTree : ReduceOrder::kRank;
    std::vector<std::vector<uint8_t>> values;
    std::vector<const void*> inputs;
    for (int r = 0; r < ranks; ++r) values.push_back(BytesOf(AwkwardValues(r, kCount), type));
    for (const auto& value : values) inputs.push_back(value.data());
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax}) {
      std::vector<uint8_t> expected(kCount * SizeOf(type));
      ReduceInOrder(inputs, type, kCount, {op, order}, expected.data());
      ASSERT_TRUE(ByHosts(plan, inputs, type, kCount, {op, order}) == expected)
          << "round " << round << ", " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace dp::engine

#include "worker/library/spawn/rank_place.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::library {
namespace {

using distributed::SpawnOptions;
using ::testing::StartsWith;

std::string Fault(int nprocs, const SpawnOptions& options) {
  return std::string(CheckSpawnOptions(options, nprocs).message());
}

TEST(RankPlaceTest, ARankOfTheSecondHostHasItsNumbers) {
  const RankVariables variables = VariablesOfRank(
      {.first_rank = 4, .world_size = 8, .master_addr = "10.0.0.1", .master_port = 29500}, 4, 1);
  const std::map<std::string, std::optional<std::string>> read(variables.begin(), variables.end());
  EXPECT_EQ(read.at("RANK"), "5");
  EXPECT_EQ(read.at("LOCAL_RANK"), "1");
  EXPECT_EQ(read.at("WORLD_SIZE"), "8");
  EXPECT_EQ(read.at("LOCAL_WORLD_SIZE"), "4");
  EXPECT_EQ(read.at("MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(read.at("MASTER_PORT"), "29500");
  EXPECT_EQ(read.at("TORCHELASTIC_USE_AGENT_STORE"), std::nullopt);
}

TEST(RankPlaceTest, OneHostNeedsNoOption) {
  EXPECT_EQ(Fault(3, {}), "");
  EXPECT_EQ(Fault(3, {.world_size = 3}), "");
}

TEST(RankPlaceTest, OptionsThatFitNoWorldAreRejected) {
  EXPECT_EQ(Fault(0, {}), "spawn: nprocs is 0; give 1 or more");
  EXPECT_EQ(Fault(1, {.grace = std::chrono::milliseconds(-1)}),
            "spawn: grace is -1 ms; give 0 or more");
  EXPECT_THAT(Fault(2, {.first_rank = -1}),
              StartsWith("spawn: first_rank is -1 with 2 ranks here"));
  EXPECT_EQ(Fault(2, {.first_rank = 3, .world_size = 4}),
            "spawn: first_rank is 3 with 2 ranks here, of world_size 4; the ranks of a host are "
            "first_rank to first_rank + nprocs - 1");
  EXPECT_THAT(Fault(2, {.first_rank = 2147483647}), StartsWith("spawn: first_rank is 2147483647"));
}

TEST(RankPlaceTest, MoreRanksThanAHostCanHaveAreRefusedBeforeTheFirstOne) {
  EXPECT_EQ(Fault(100'000, {}), "");
  EXPECT_EQ(CheckSpawnOptions({}, 100'001),
            absl::ResourceExhaustedError("spawn: nprocs is 100001; give 100000 at most"));
}

TEST(RankPlaceTest, SeveralHostsNeedTheAddressOfRankZero) {
  EXPECT_EQ(Fault(2, {.world_size = 4}),
            "spawn: world_size is 4 with 2 ranks here; give master_addr and master_port, where all "
            "hosts reach rank 0");
  EXPECT_EQ(Fault(2, {.master_addr = "host"}),
            "spawn: master_addr is given without master_port; give both, or none");
  EXPECT_EQ(Fault(2, {.master_port = 7}),
            "spawn: master_port is given without master_addr; give both, or none");
  EXPECT_EQ(Fault(2, {.world_size = 4, .master_addr = "host", .master_port = 7}), "");
}

}  // namespace
}  // namespace dp::library

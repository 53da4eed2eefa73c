#include "worker/engine/collectives/nccl/nccl_connect.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;

// The rule of NCCL's user guide, for one rank.
bool DrawsById(int rank, int size, int ids) {
  const int larger = size % ids, share = size / ids, limit = larger * (share + 1);
  return rank < limit ? rank % (share + 1) == 0 : (rank - limit) % share == 0;
}

TEST(NcclIdsTest, AWorldUpToTheThresholdHasOneId) {
  EXPECT_EQ(NcclIdCount(1, 256), 1);
  EXPECT_EQ(NcclIdCount(256, 256), 1);
  EXPECT_EQ(NcclIdCount(257, 256), 2);
  EXPECT_EQ(NcclIdCount(100'000, 256), 391);
}

TEST(NcclIdsTest, SevenRanksWithThreeIds) {
  EXPECT_THAT(RanksThatDrawIds(7, 3), ElementsAre(0, 3, 5));
}

TEST(NcclIdsTest, EveryWorldDrawsAsTheDocumentedRuleSays) {
  for (int size = 1; size <= 70; ++size)
    for (int ids = 1; ids <= size; ++ids) {
      std::vector<int> documented;
      for (int rank = 0; rank < size; ++rank)
        if (DrawsById(rank, size, ids)) documented.push_back(rank);
      ASSERT_EQ(RanksThatDrawIds(size, ids), documented) << size << " ranks, " << ids << " ids";
    }
}

}  // namespace
}  // namespace dp::engine

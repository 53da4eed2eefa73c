#include "worker/engine/collectives/farewells.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;

TEST(FarewellsTest, APeerThatSaidNoneIsNamed) {
  EXPECT_THAT(Farewells().Culprits({3, 1}, 0), ElementsAre(1, 3));
}

TEST(FarewellsTest, APeerThatSaidOneGivesWayToTheRanksThatItNamed) {
  Farewells farewells;
  farewells.Heard(1, {2});
  EXPECT_THAT(farewells.Culprits({1}, 0), ElementsAre(2));
  EXPECT_THAT(farewells.Culprits({1, 2}, 0), ElementsAre(2));
  EXPECT_THAT(farewells.Culprits({2}, 0), ElementsAre(2));
}

TEST(FarewellsTest, TheFirstFarewellOfAPeerCounts) {
  Farewells farewells;
  farewells.Heard(1, {2});
  farewells.Heard(1, {3});
  EXPECT_THAT(farewells.Culprits({1}, 0), ElementsAre(2));
}

TEST(FarewellsTest, APeerThatNamesThisRankIsNamed) {
  Farewells farewells;
  farewells.Heard(1, {0});
  EXPECT_THAT(farewells.Culprits({1}, 0), ElementsAre(1));
}

TEST(FarewellsTest, RanksSurviveAsText) {
  EXPECT_THAT(*DecodeRanks(EncodeRanks({4, 0, 12}), 13), ElementsAre(4, 0, 12));
  EXPECT_FALSE(DecodeRanks("4,13", 13).ok());
  EXPECT_FALSE(DecodeRanks("", 13).ok());
  EXPECT_FALSE(DecodeRanks("1,-2", 13).ok());
}

}  // namespace
}  // namespace dp::engine

#include "worker/trainer/program/rank_cards.h"

#include <memory>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/trainer/testing/open_fake_nccl.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

using RankGroups = std::vector<std::unique_ptr<engine::Group>>;

// Rank 0's log if the ranks of `groups` have these cards.
std::string ToldOf(const std::vector<RankCard>& cards, const RankGroups& groups) {
  ::testing::internal::CaptureStderr();
  {
    std::vector<std::jthread> ranks;
    for (size_t rank = 0; rank < cards.size(); ++rank) {
      ranks.emplace_back(
          [&, rank] { EXPECT_TRUE(TellDifferentCards(*groups[rank], cards[rank]).ok()); });
    }
  }
  return ::testing::internal::GetCapturedStderr();
}
std::string ToldOf(const std::vector<RankCard>& cards) {
  return ToldOf(cards, engine::MakeLocalGroups(static_cast<int>(cards.size())));
}

TEST(RankCardsTest, EqualCardsAreNotWorthAWord) {
  EXPECT_EQ(DifferentCards({{"a", "H100"}, {"b", "H100"}}), "");
  EXPECT_EQ(DifferentCards({{"a", "H100"}}), "");
  EXPECT_EQ(ToldOf({{"a", "H100"}, {"b", "H100"}}), "");
}

TEST(RankCardsTest, DifferentOnesAreNamedWithTheirRanksAndWorkers) {
  EXPECT_EQ(DifferentCards({{"a", "H100"}, {"a", "H100"}, {"b", "A100"}}),
            "ranks 0-1 on worker a: H100; rank 2 on worker b: A100");
  EXPECT_EQ(DifferentCards({{"a", "H100"}, {"a", "A100"}, {"b", "A100"}, {"b", "A100"}}),
            "rank 0 on worker a: H100; rank 1 on worker a: A100; ranks 2-3 on worker b: A100");
}

TEST(RankCardsTest, AfterSixteenTheRestIsCounted) {
  std::vector<RankCard> cards;
  for (int i = 0; i < 20; ++i) cards.push_back({std::to_string(i), i == 7 ? "A100" : "H100"});
  EXPECT_THAT(DifferentCards(cards), HasSubstr("rank 15 on worker 15: H100; and 4 more ranks"));
}

TEST(RankCardsTest, TheRanksTellEachOtherAndOneOfThemTellsTheUser) {
  const std::string told = ToldOf({{"a", "H100"}, {"b", "A100"}});
  EXPECT_THAT(told, HasSubstr("event=cards_differ cards=\"rank 0 on worker a: H100; rank 1 on "
                              "worker b: A100\""));
  EXPECT_EQ(told.find("cards_differ"), told.rfind("cards_differ"));
}

// Names lie in host memory, unlike gradients.
TEST(RankCardsTest, TheyDoSoWhereNcclBindsThem) {
  engine::FakeNccl nccl([](const void*, size_t) { return false; });
  HashStore store;
  EXPECT_THAT(ToldOf({{"a", "H100"}, {"b", "A100"}}, OpenFakeNccl(nccl, store, 2)),
              HasSubstr("event=cards_differ"));
}

TEST(RankCardsTest, ANameThatIsTooLongIsCut) {
  const auto groups = engine::MakeLocalGroups(1);
  const auto cards = GatherCards(*groups[0], {std::string(200, 'w'), std::string(200, 'm')});
  ASSERT_TRUE(cards.ok()) << cards.status();
  EXPECT_EQ((*cards)[0].worker, std::string(95, 'w'));
  EXPECT_EQ((*cards)[0].model, std::string(95, 'm'));
}

}  // namespace
}  // namespace dp::trainer

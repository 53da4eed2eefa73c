#include "worker/engine/collectives/store_arrival.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"

namespace dp::engine {
namespace {

// Notes the largest request, and lets no wait last.
class BoundedStore : public HashStore {
 public:
  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    largest = std::max(largest, operations.size());
    return HashStore::Execute(operations);
  }
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration) override {
    largest = std::max(largest, reads.size());
    return HashStore::Await(reads, absl::ZeroDuration());
  }

  size_t largest = 0;
};

TEST(StoreArrivalTest, AWorldThatIsTooLargeByMistakeMakesNoRequestOfItsSize) {
  BoundedStore store;
  std::vector<int> missing;
  const auto cards = AwaitRanks(
      store, "group", 0, 2'000'000'000, "card", [] { return true; }, &missing);
  EXPECT_TRUE(absl::IsAborted(cards.status()));
  EXPECT_EQ(store.largest, size_t{kRanksAwaitedAtOnce});
  EXPECT_EQ(missing.size(), size_t{kRanksAwaitedAtOnce - 1});
  EXPECT_EQ(missing.front(), 1);
}

TEST(StoreArrivalTest, CardsOfALargeWorldComeInTheOrderOfTheRanks) {
  BoundedStore store;
  constexpr int kSize = kRanksAwaitedAtOnce + 2;
  for (int r = 1; r < kSize; ++r)
    ASSERT_TRUE(store.Set(absl::StrCat("group/", r, "/arrived"), absl::StrCat(r)).ok());
  std::vector<int> missing;
  const auto cards = AwaitRanks(
      store, "group", 0, kSize, "0", [] { return true; }, &missing);
  ASSERT_TRUE(cards.ok()) << cards.status();
  ASSERT_EQ(cards->size(), size_t{kSize});
  for (int r = 0; r < kSize; ++r) ASSERT_EQ((*cards)[static_cast<size_t>(r)], absl::StrCat(r));
}

}  // namespace
}  // namespace dp::engine

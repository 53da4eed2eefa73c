#include "worker/agent/stores/store_client_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/limits.h"

namespace dp::worker {
namespace {

constexpr absl::Duration kLookPatience = absl::Seconds(30);
constexpr JobId kWatchedJob(7);
constexpr Generation kWatchedLife(2);

// A watch that does not rest, on a host with the connections that the test sets.
class StoreClientWatchTest : public ::testing::Test {
 protected:
  void There(std::vector<StoreClient> clients) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    there_ = std::move(clients);
    looks_ = 0;
  }
  // Waits for a whole look; a look in flight does not count.
  void AwaitLook() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ASSERT_TRUE(
        looked_.WaitFor(mu_, kLookPatience, [this]() DP_REQUIRES(mu_) { return looks_ >= 3; }));
  }
  std::vector<StoreClient> Look(const StorePortOf& stores) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++looks_;
    looked_.NotifyAll();
    return stores.empty() ? std::vector<StoreClient>() : there_;
  }
  void AwaitNothing() {
    while (watch_.RankAt(kWatchedJob, kWatchedLife, "10.0.0.2:1").has_value()) AwaitLookOrEnd();
  }
  // The watch stops looking once nothing is left.
  void AwaitLookOrEnd() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    (void)looked_.WaitFor(mu_, absl::Milliseconds(10));
  }

  Mutex mu_;
  CondVar looked_;
  std::vector<StoreClient> there_ DP_GUARDED_BY(mu_);
  int looks_ DP_GUARDED_BY(mu_) = 0;
  StoreClientWatch watch_{[this](const StorePortOf& stores) { return Look(stores); },
                          absl::ZeroDuration()};
};

TEST_F(StoreClientWatchTest, ARankIsKnownByItsEndOfAConnectionOnceThatWasSeen) {
  There({{kWatchedJob, kWatchedLife, 3, "10.0.0.2:1"},
         {kWatchedJob, Generation(1), 4, "10.0.0.2:2"}});
  watch_.Follow(kWatchedJob, kWatchedLife, 29500);
  AwaitLook();
  EXPECT_EQ(watch_.RankAt(kWatchedJob, kWatchedLife, "10.0.0.2:1"), 3);
  EXPECT_EQ(watch_.RankAt(kWatchedJob, kWatchedLife, "10.0.0.2:2"), std::nullopt);
  EXPECT_EQ(watch_.RankAt(kWatchedJob, Generation(1), "10.0.0.2:2"), std::nullopt);
}

TEST_F(StoreClientWatchTest, ItIsToldOfWhenItChangesOnly) {
  There({{kWatchedJob, kWatchedLife, 3, "10.0.0.2:1"}});
  watch_.Follow(kWatchedJob, kWatchedLife, 29500);
  AwaitLook();
  const StoreClientWatch::Latest first = watch_.latest();
  EXPECT_EQ(first.clients,
            (std::vector<StoreClient>{{kWatchedJob, kWatchedLife, 3, "10.0.0.2:1"}}));
  There({{kWatchedJob, kWatchedLife, 3, "10.0.0.2:1"}});
  AwaitLook();
  EXPECT_EQ(watch_.latest().number, first.number);
  There({{kWatchedJob, kWatchedLife, 4, "10.0.0.2:1"}});
  AwaitLook();
  EXPECT_GT(watch_.latest().number, first.number);
}

TEST_F(StoreClientWatchTest, NothingIsLeftOfAStoreThatWasLeft) {
  There({{kWatchedJob, kWatchedLife, 3, "10.0.0.2:1"}});
  watch_.Follow(kWatchedJob, kWatchedLife, 29500);
  AwaitLook();
  watch_.Leave(kWatchedJob, kWatchedLife);
  AwaitNothing();
  EXPECT_TRUE(watch_.latest().clients.empty());
  EXPECT_EQ(watch_.latest().number, 2u);
}

TEST_F(StoreClientWatchTest, ARankWithVeryManyConnectionsLeavesRoomForTheOthers) {
  std::vector<StoreClient> clients;
  for (size_t i = 0; i < kStoreClientsMax; ++i) {
    clients.push_back({kWatchedJob, kWatchedLife, 0, absl::StrCat("10.0.0.2:", i)});
  }
  clients.push_back({kWatchedJob, kWatchedLife, 1, "10.0.0.2:60000"});
  There(clients);
  watch_.Follow(kWatchedJob, kWatchedLife, 29500);
  AwaitLook();
  EXPECT_EQ(watch_.latest().clients.size(), kStoreClientsOfRankMax + 1);
  EXPECT_EQ(watch_.latest().clients.back().rank, 1);
  EXPECT_EQ(watch_.RankAt(kWatchedJob, kWatchedLife, "10.0.0.2:4095"), 0);
}

}  // namespace
}  // namespace dp::worker

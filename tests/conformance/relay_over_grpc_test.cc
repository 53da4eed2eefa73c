#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "client/connection.h"
#include "client/grpc_store_link.h"
#include "store/relay/store_relay.h"
#include "tests/conformance/coordinator_with_job.h"

namespace dp {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr size_t kWaitingRanks = 8;

// Collects answers for a test. Thread-safe.
class Answers {
 public:
  AsyncStore::Done Take() {
    return [this](AsyncStore::Results results) {
      MutexLock lock(mu_);
      results_.push_back(std::move(results));
      changed_.NotifyAll();
    };
  }
  std::vector<AsyncStore::Results> Await(size_t count) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (results_.size() < count) {
      if (!changed_.WaitFor(mu_, kPatience)) return {};
    }
    return results_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::vector<AsyncStore::Results> results_ DP_GUARDED_BY(mu_);
};

// A daemon's relay for the ranks of its host.
class RelayOverGrpcTest : public testing::Test {
 protected:
  // The first lookup of each rank's connection finds no rank; later ones do.
  void Serve(absl::Duration parking) {
    const auto rank_at = [this](const std::string& peer) {
      const bool seen = ++looks_ > kWaitingRanks;
      return seen ? std::optional<int>(std::stoi(peer)) : std::nullopt;
    };
    link_ = std::make_unique<client::GrpcStoreLink>(
        connection_, client::GrpcStoreLink::Options{.job = coordinator_.job(),
                                                    .generation = Generation(1),
                                                    .incarnation = 7,
                                                    .worker = "w",
                                                    .rank_at = rank_at,
                                                    .parking = parking});
    relay_ = std::make_unique<StoreRelay>(*link_, StoreRelayOptions{.job = coordinator_.job()});
  }
  // Every rank waits for `key`.
  void Wait(const std::string& key) {
    for (size_t rank = 0; rank < kWaitingRanks; ++rank) {
      relay_->Await({StoreGet{key}}, answers_.Take(), absl::StrCat(rank));
    }
  }
  template <typename Condition>
  static bool Eventually(Condition condition) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!condition()) {
      if (absl::Now() > deadline) return false;
    }
    return true;
  }

  std::atomic<size_t> looks_ = 0;
  CoordinatorWithJob coordinator_;
  client::Connection connection_{coordinator_.address(), client::Credentials::Insecure()};
  std::unique_ptr<client::GrpcStoreLink> link_;
  Answers answers_;
  std::unique_ptr<StoreRelay> relay_;  // destroyed first
};

// Each stream is parked too, in addition to the ranks' waits.
TEST_F(RelayOverGrpcTest, RanksThatWaitCostTheCoordinatorOneStream) {
  Serve(absl::Hours(1));
  Wait("one");
  EXPECT_TRUE(Eventually([&] { return coordinator_.parked() == kWaitingRanks + 1; }));
  relay_->Execute({StoreSet{"one", "value"}}, answers_.Take());
  for (const auto& results : answers_.Await(kWaitingRanks + 1)) EXPECT_TRUE(results.ok());
  EXPECT_EQ(coordinator_.parked(), 1u);
  Wait("other");
  EXPECT_TRUE(Eventually([&] { return coordinator_.parked() == kWaitingRanks + 1; }));
  relay_.reset();
  link_.reset();
  EXPECT_TRUE(Eventually([&] { return coordinator_.parked() == 0; }));
}

TEST_F(RelayOverGrpcTest, RanksThatHaveWaitedLongAreNamed) {
  Serve(absl::Milliseconds(50));
  Wait("key");
  std::vector<std::string> named;
  for (size_t rank = 0; rank < kWaitingRanks; ++rank)
    named.push_back(absl::StrCat("rank ", rank, " on w"));
  EXPECT_TRUE(Eventually([&] {
    std::vector<std::string> waiting = coordinator_.waiting();
    std::sort(waiting.begin(), waiting.end());
    return waiting == named;
  }));
  relay_->Execute({StoreSet{"key", "value"}}, answers_.Take());
  for (const auto& results : answers_.Await(kWaitingRanks + 1)) EXPECT_TRUE(results.ok());
}

}  // namespace
}  // namespace dp

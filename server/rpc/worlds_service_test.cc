#include <future>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/testing/services_fixture.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

class WorldsServiceTest : public ServicesFixture {
 protected:
  // The request of a rank of the first generation that watches its world.
  v1::WatchWorldRequest RanksWatch(uint64_t job, uint64_t since) const {
    v1::WatchWorldRequest request;
    request.set_job(job);
    request.set_generation(1);
    request.set_members(v1::MEMBER_TABLE_NONE);
    request.set_since(since);
    return request;
  }
  Answered<v1::WatchWorldResponse> Watch(const v1::WatchWorldRequest& request) {
    return client_->Call(client_->worlds(), &v1::Worlds::Stub::Watch, request);
  }
  std::future<Answered<v1::WatchWorldResponse>> BeginWatch(v1::WatchWorldRequest request) {
    request.mutable_timeout()->set_seconds(30);
    return std::async(std::launch::async, [this, request] { return Watch(request); });
  }
  // Rank 0 joins and watches, as clients of earlier releases do.
  std::future<Answered<v1::WatchWorldResponse>> JoinAndWatch(uint64_t job) {
    v1::WatchWorldRequest request;
    request.set_job(job);
    request.set_since(client_->Join(job, 0)->world().version());
    auto watch = BeginWatch(request);
    AwaitParked(1);
    return watch;
  }
};

TEST_F(WorldsServiceTest, AWorldWatchIsAnsweredWhenTheLastRankJoins) {
  const uint64_t job = PlacedJob(2);
  auto watch = JoinAndWatch(job);
  ASSERT_TRUE(client_->Join(job, 1).ok());
  EXPECT_EQ(watch.get()->world().state(), v1::WORLD_STATE_SEALED);
}

TEST_F(WorldsServiceTest, ARankOfALargeWorldGetsItsPlaceAndNotThoseOfItsPeers) {
  constexpr int kRanks = 500;
  const uint64_t job = PlacedJob(kRanks);
  v1::JoinRequest request;
  request.set_job(job);
  request.set_generation(1);
  request.set_members(v1::MEMBER_TABLE_NONE);
  for (int rank = 0; rank < kRanks; ++rank) {
    request.set_rank(rank);
    const auto joined = client_->Call(client_->worlds(), &v1::Worlds::Stub::Join, request);
    ASSERT_TRUE(joined.ok()) << joined.status.error_message();
    EXPECT_EQ(joined->member().rank(), rank);
    EXPECT_EQ(joined->member().host(), "host-w");
    EXPECT_EQ(joined->master_address(), "127.0.0.1");
    EXPECT_EQ(joined->world().size(), kRanks);
    EXPECT_LT(joined->ByteSizeLong(), 1024u + kRanks);
  }
}

TEST_F(WorldsServiceTest, ARanksWatchSleepsThroughTheJoinsOfItsPeers) {
  const uint64_t job = PlacedJob(3);
  auto watch = BeginWatch(RanksWatch(job, client_->Join(job, 0)->world().version()));
  AwaitParked(1);
  ASSERT_TRUE(client_->Join(job, 1).ok());
  AwaitParked(1);
  ASSERT_TRUE(client_->Join(job, 2).ok());
  const auto answer = watch.get();
  EXPECT_EQ(answer->world().state(), v1::WORLD_STATE_SEALED);
  EXPECT_EQ(answer->world().size(), 3);
  EXPECT_EQ(answer->world().members_size(), 0);
}

TEST_F(WorldsServiceTest, ARankThatWatchesAFormingWorldTooLateLearnsWhoIsMissing) {
  const uint64_t job = PlacedJob(2);
  client_->Join(job, 0);
  const auto answer = Watch(RanksWatch(job, 0));
  EXPECT_EQ(answer->world().state(), v1::WORLD_STATE_FORMING);
  EXPECT_THAT(answer->world().reason(), HasSubstr("missing: rank 1 on w"));
}

// Trainers of earlier releases send such requests: they expect the table, and an answer to every
// join.
TEST_F(WorldsServiceTest, AClientThatSaysNothingOfTheMemberTableGetsItAtEveryJoin) {
  const uint64_t job = PlacedJob(3);
  auto watch = JoinAndWatch(job);
  ASSERT_EQ(client_->Join(job, 1)->world().members_size(), 2);
  const auto answer = watch.get();
  EXPECT_EQ(answer->world().state(), v1::WORLD_STATE_FORMING);
  EXPECT_EQ(answer->world().members_size(), 2);
}

}  // namespace
}  // namespace dp::server

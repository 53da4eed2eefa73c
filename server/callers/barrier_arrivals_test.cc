#include "server/callers/barrier_arrivals.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Generation kLife(2);

// A barrier of three ranks, and its store.
class BarrierArrivalsTest : public ::testing::Test {
 protected:
  BarrierArrivalsTest() {
    job_.id = JobId(7);
    job_.generation = kLife;
    job_.ranks.resize(3);
  }
  BlockedCall Arrive(int rank, const std::string& peer = "") {
    EXPECT_TRUE(store_.Apply(std::vector<StoreOperation>{StoreAdd{"meet", 1}}).ok());
    return Wait(rank, peer);
  }
  BlockedCall Wait(int rank, const std::string& peer = "") {
    BlockedCall call{.job = job_.id,
                     .generation = kLife,
                     .who = "",
                     .rank = rank,
                     .peer = peer,
                     .reads = {StoreReached{"meet", 3}},
                     .since = {}};
    arrivals_.Saw(call, store_);
    return call;
  }
  std::set<int> Missing(int64_t arrived, std::map<std::string, int> ranks = {}) const {
    return arrivals_.Missing(job_, "meet", arrived, 3, CallerNames(job_, std::move(ranks)));
  }

  core::Job job_;
  KeyValues store_;
  BarrierArrivals arrivals_;
};

TEST_F(BarrierArrivalsTest, WhoHasComeIsNotMissing) {
  Arrive(1);
  EXPECT_THAT(Missing(1), ElementsAre(0, 2));
}

TEST_F(BarrierArrivalsTest, WhoseRankIsToldLaterIsKnownThen) {
  Arrive(1);
  Arrive(-1, "10.0.0.2:40312");
  EXPECT_THAT(Missing(2), IsEmpty());
  EXPECT_THAT(Missing(2, {{"10.0.0.2:40312", 0}}), ElementsAre(2));
}

TEST_F(BarrierArrivalsTest, WhoComesAsBothIsOne) {
  Arrive(1);
  Arrive(-1, "10.0.0.2:40312");
  EXPECT_THAT(Missing(1, {{"10.0.0.2:40312", 1}}), ElementsAre(0, 2));
  EXPECT_THAT(Missing(2, {{"10.0.0.2:40312", 1}}), IsEmpty());
}

TEST_F(BarrierArrivalsTest, NothingIsKnownOfWhoWasNotSeenNorOfABarrierOfOthers) {
  EXPECT_THAT(Missing(0), IsEmpty());
  Arrive(1);
  EXPECT_THAT(Missing(2), IsEmpty());
  EXPECT_THAT(arrivals_.Missing(job_, "meet", 1, 2, CallerNames(job_, {})), IsEmpty());
  job_.generation = Generation(3);
  EXPECT_THAT(Missing(1), IsEmpty());
}

TEST_F(BarrierArrivalsTest, WhoIsKnownByNothingTakesNoRoom) {
  Arrive(-1);
  EXPECT_EQ(arrivals_.size(), 0u);
}

TEST_F(BarrierArrivalsTest, AClientThatComesAgainAndAgainTakesBoundedRoomOfItsBarrierOnly) {
  Arrive(1);
  job_.id = JobId(8);
  for (size_t i = 0; i < 2 * BarrierArrivals::kArrivalsMax; ++i) {
    Wait(-1, absl::StrCat("10.0.0.2:", i));
    ASSERT_LE(arrivals_.size(), BarrierArrivals::kArrivalsMax + 1);
  }
  job_.id = JobId(7);
  EXPECT_THAT(Missing(1), ElementsAre(0, 2));
}

TEST_F(BarrierArrivalsTest, OfManyBarriersTheOldestAreForgotten) {
  Arrive(1);
  for (uint64_t job = 8; arrivals_.size() < BarrierArrivals::kAllArrivalsMax; ++job) {
    job_.id = JobId(job);
    for (int rank = 0; rank < 10'000; ++rank) Wait(rank);
  }
  EXPECT_EQ(arrivals_.size(), BarrierArrivals::kAllArrivalsMax);
  job_.id = JobId(7);
  EXPECT_THAT(Missing(1), IsEmpty());
}

TEST_F(BarrierArrivalsTest, WhatWasPassedIsForgotten) {
  const BlockedCall call = Arrive(1);
  EXPECT_TRUE(store_.Apply(std::vector<StoreOperation>{StoreAdd{"meet", 2}}).ok());
  arrivals_.Answered(call, store_);
  EXPECT_EQ(arrivals_.size(), 0u);
  EXPECT_THAT(Missing(1), IsEmpty());
}

}  // namespace
}  // namespace dp::server

#include "server/core/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace dp::core {
namespace {

using testing::ElementsAre;

TEST(RendezvousTest, TheLastRankSealsTheWorld) {
  Rendezvous world(2);
  EXPECT_TRUE(*world.Join(1));
  EXPECT_THAT(world.missing(), ElementsAre(0));
  EXPECT_EQ(world.state(), WorldState::kForming);
  EXPECT_TRUE(*world.Join(0));
  EXPECT_EQ(world.state(), WorldState::kSealed);
}

TEST(RendezvousTest, EachRankIsAMemberOrMissing) {
  Rendezvous world(3);
  EXPECT_THAT(world.missing(), ElementsAre(0, 1, 2));
  EXPECT_TRUE(*world.Join(1));
  const Rendezvous restored(world.state(), world.size(), world.members(), "");
  for (const Rendezvous* each : {&std::as_const(world), &restored}) {
    EXPECT_THAT(each->members(), ElementsAre(1));
    EXPECT_THAT(each->missing(), ElementsAre(0, 2));
  }
}

TEST(RendezvousTest, JoiningTwiceChangesNothing) {
  Rendezvous world(2);
  EXPECT_TRUE(*world.Join(0));
  EXPECT_FALSE(*world.Join(0));
  EXPECT_EQ(world.state(), WorldState::kForming);
}

TEST(RendezvousTest, ARankOutsideTheWorldIsRefused) {
  Rendezvous world(2);
  EXPECT_EQ(world.Join(2).status().message(), "rank 2 is outside a world of 2 ranks");
  EXPECT_EQ(world.Join(-1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RendezvousTest, AClosedWorldStaysClosedForItsFirstReason) {
  Rendezvous world(1);
  world.Close("rank 0 died");
  world.Close("cancelled");
  EXPECT_EQ(world.Join(0).status().message(), "the world is closed: rank 0 died");
}

}  // namespace
}  // namespace dp::core

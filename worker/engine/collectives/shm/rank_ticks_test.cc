#include "worker/engine/collectives/shm/rank_ticks.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using Wait = RankTicks::Wait;

// Three ranks that are threads. `cores` decides whether their waits spin.
class RankTicksTest : public ::testing::TestWithParam<int> {
 protected:
  RankTicks Rank(int rank) { return RankTicks(segment_, rank, 3, SpinPolicy(GetParam(), 3)); }

  const SharedSegment segment_ = *SharedSegment::Map(*SharedSegment::MakeFile(3), 3);
  RankTicks one_ = Rank(0), two_ = Rank(1), three_ = Rank(2);
};

TEST_P(RankTicksTest, ATickIsReachedOnceAllHaveMadeIt) {
  EXPECT_EQ(one_.Tick(), 1u);
  EXPECT_THAT(one_.Behind(1), ElementsAre(1, 2));
  two_.Tick();
  EXPECT_THAT(one_.Behind(1), ElementsAre(2));
  std::jthread last([&] { three_.Tick(); });
  EXPECT_EQ(one_.AwaitTick(1), Wait::kReached);
  EXPECT_THAT(one_.Behind(1), ElementsAre());
}

TEST_P(RankTicksTest, NoWakeIsLostInManyRounds) {
  constexpr uint64_t kRounds = 20000;
  const auto run = [](RankTicks& ticks) {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      ticks.Tick();
      ASSERT_EQ(ticks.AwaitTick(i), Wait::kReached);
    }
  };
  std::jthread a([&] { run(one_); }), b([&] { run(two_); }), c([&] { run(three_); });
}

TEST_P(RankTicksTest, AnInterruptEndsTheRunningWaitAndLaterOnes) {
  std::jthread other([&] { one_.Interrupt(); });
  EXPECT_EQ(one_.AwaitTick(1), Wait::kInterrupted);
  EXPECT_EQ(one_.AwaitTick(1), Wait::kInterrupted);
}

TEST_P(RankTicksTest, WhatIsThereIsReachedEvenAfterAnInterrupt) {
  for (RankTicks* ticks : {&one_, &two_, &three_}) ticks->Tick();
  one_.Interrupt();
  EXPECT_EQ(one_.AwaitTick(1), Wait::kReached);
}

TEST_P(RankTicksTest, APeerThatLeftMakesNoMoreTicks) {
  two_.Tick();
  three_.Tick();
  two_.Leave();
  EXPECT_EQ(one_.AwaitTick(1), Wait::kReached) << "needs nothing more from the rank that left";
  three_.Tick();
  EXPECT_EQ(one_.AwaitTick(2), Wait::kPeerLeft);
  EXPECT_TRUE(one_.HasLeft(1));
  EXPECT_FALSE(one_.HasLeft(2));
}

TEST_P(RankTicksTest, ALeaveWakesThoseWhoWait) {
  std::jthread other([&] { two_.Leave(); });
  EXPECT_EQ(one_.AwaitTick(1), Wait::kPeerLeft);
  std::jthread another([&] { three_.Leave(); });
  one_.AwaitRing([&] { return one_.HasLeft(1) && one_.HasLeft(2); });
}

INSTANTIATE_TEST_SUITE_P(SleepingAndSpinning, RankTicksTest, ::testing::Values(1, 64));

}  // namespace
}  // namespace dp::engine

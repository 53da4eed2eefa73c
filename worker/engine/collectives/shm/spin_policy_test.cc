#include "worker/engine/collectives/shm/spin_policy.h"

#include "gtest/gtest.h"

namespace dp::engine {
namespace {

constexpr absl::Duration kShort = absl::Microseconds(5);
constexpr absl::Duration kLong = absl::Milliseconds(20);

void EndWaits(SpinPolicy& policy, int count, absl::Duration each) {
  for (int i = 0; i < count; ++i) policy.Ended(each);
}

TEST(SpinPolicyTest, RanksThatOutnumberTheCoresNeverSpin) {
  SpinPolicy policy(/*cores=*/3, /*ranks=*/4);
  EXPECT_EQ(policy.budget(), absl::ZeroDuration());
  EndWaits(policy, 100, kShort);
  EXPECT_EQ(policy.budget(), absl::ZeroDuration());
}

TEST(SpinPolicyTest, WithoutASpareCoreARankSpinsShorter) {
  EXPECT_GT(SpinPolicy(4, 4).budget(), absl::ZeroDuration());
  EXPECT_LT(SpinPolicy(4, 4).budget(), SpinPolicy(5, 4).budget());
}

TEST(SpinPolicyTest, ASpinIsShortHoweverShortTheWaits) {
  SpinPolicy policy(64, 2);
  EndWaits(policy, 1000, absl::ZeroDuration());
  EXPECT_LE(policy.budget(), absl::Microseconds(50));
}

TEST(SpinPolicyTest, AfterOneLongWaitNoWaitSpins) {
  SpinPolicy policy(8, 2);
  EndWaits(policy, 100, kShort);
  policy.Ended(kLong);
  EXPECT_EQ(policy.budget(), absl::ZeroDuration());
}

TEST(SpinPolicyTest, AFewShortWaitsAfterManyLongOnesSpinAgain) {
  SpinPolicy policy(8, 2);
  EndWaits(policy, 1000, kLong);
  EXPECT_EQ(policy.budget(), absl::ZeroDuration());
  EndWaits(policy, 10, kShort);
  EXPECT_GT(policy.budget(), absl::ZeroDuration());
}

TEST(SpinPolicyTest, WaitsOfASleepAndAWakeKeepItSpinning) {
  SpinPolicy policy(8, 2);
  EndWaits(policy, 100, absl::Microseconds(45));
  EXPECT_GT(policy.budget(), absl::ZeroDuration());
}

// As in a training: a long wait while the peers compute, then the few of a small sum.
TEST(SpinPolicyTest, EveryOtherWaitLongMeansNoSpin) {
  SpinPolicy policy(2, 2);
  for (int step = 0; step < 100; ++step) {
    policy.Ended(kLong);
    EXPECT_EQ(policy.budget(), absl::ZeroDuration());
    policy.Ended(kShort);
    EXPECT_EQ(policy.budget(), absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace dp::engine

#include "base/backoff.h"

#include "gtest/gtest.h"

namespace dp {
namespace {

constexpr BackoffOptions kOptions{
    .initial = absl::Milliseconds(100), .max = absl::Milliseconds(400), .multiplier = 2.0};

TEST(BackoffTest, EachDelayLiesInTheUpperHalfOfAGrowingCeiling) {
  Backoff backoff(kOptions, /*seed=*/42);
  for (const int ceiling_ms : {100, 200, 400, 400, 400}) {
    const absl::Duration delay = backoff.Next();
    EXPECT_GE(delay, absl::Milliseconds(ceiling_ms) / 2);
    EXPECT_LT(delay, absl::Milliseconds(ceiling_ms));
  }
}

TEST(BackoffTest, ResetStartsFromTheInitialDelay) {
  Backoff backoff(kOptions, /*seed=*/42);
  backoff.Next();
  backoff.Next();
  backoff.Reset();
  EXPECT_LT(backoff.Next(), absl::Milliseconds(100));
}

TEST(BackoffTest, TheSameSeedGivesTheSameDelays) {
  Backoff one(kOptions, /*seed=*/7);
  Backoff two(kOptions, /*seed=*/7);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(one.Next(), two.Next());
}

}  // namespace
}  // namespace dp

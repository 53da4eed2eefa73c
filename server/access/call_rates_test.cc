#include "server/access/call_rates.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

constexpr double kPerSecond = 4;
constexpr int kAtOnce = 40;  // CallRates::kSavedUp's worth

class CallRatesTest : public testing::Test {
 protected:
  bool May(const std::string& caller) {
    return rates_.Take(caller, kPerSecond, now_) == absl::ZeroDuration();
  }
  // How many calls of so many go through.
  int Flood(const std::string& caller, int calls) {
    int taken = 0;
    for (int i = 0; i < calls; ++i) taken += May(caller);
    return taken;
  }
  void Pass(absl::Duration time) { now_ += time; }

  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  CallRates rates_{/*callers_max=*/3};
};

TEST_F(CallRatesTest, ACallerThatRestedMayMakeManyCallsAtOnceAndThenTheRate) {
  EXPECT_EQ(Flood("ann", 1'000), kAtOnce);
  Pass(absl::Seconds(2));
  EXPECT_EQ(Flood("ann", 1'000), 8);
}

TEST_F(CallRatesTest, ARefusalSaysWhenTheNextCallIsTaken) {
  Flood("ann", kAtOnce);
  const absl::Duration wait = rates_.Take("ann", kPerSecond, now_);
  EXPECT_EQ(wait, absl::Milliseconds(250));
  Pass(wait - absl::Milliseconds(1));
  EXPECT_FALSE(May("ann"));
  Pass(absl::Milliseconds(1));
  EXPECT_TRUE(May("ann"));
}

TEST_F(CallRatesTest, RefusedCallsDoNotPostponeTheNextOne) {
  Flood("ann", 1'000);
  Pass(absl::Milliseconds(250));
  EXPECT_TRUE(May("ann"));
}

TEST_F(CallRatesTest, RestSavesUpNoMoreThanTenSeconds) {
  Flood("ann", kAtOnce);
  Pass(absl::Hours(1));
  EXPECT_EQ(Flood("ann", 1'000), kAtOnce);
}

TEST_F(CallRatesTest, WhatIsGivenBackMayBeTakenAgain) {
  EXPECT_EQ(Flood("ann", 1'000), kAtOnce);
  for (int i = 0; i < 3; ++i) rates_.GiveBack("ann", kPerSecond);
  EXPECT_EQ(Flood("ann", 1'000), 3);
  rates_.GiveBack("bob", kPerSecond);  // has taken none
  EXPECT_EQ(Flood("bob", 1'000), kAtOnce);
}

TEST_F(CallRatesTest, NoMoreThanAllCanBeGivenBack) {
  May("ann");
  for (int i = 0; i < 1'000; ++i) rates_.GiveBack("ann", kPerSecond);
  EXPECT_EQ(Flood("ann", 1'000), kAtOnce);
}

TEST_F(CallRatesTest, LessMayBeSavedUp) {
  CallRates brief(/*callers_max=*/3, /*saved_up=*/absl::Seconds(1));
  for (const int hours : {0, 1}) {
    Pass(absl::Hours(hours));
    int taken = 0;
    while (brief.Take("ann", kPerSecond, now_) == absl::ZeroDuration()) ++taken;
    EXPECT_EQ(taken, kPerSecond);
  }
}

TEST_F(CallRatesTest, AShortRestSavesUpNoMoreEither) {
  May("ann");
  Pass(absl::Seconds(5));
  EXPECT_EQ(Flood("ann", 1'000), kAtOnce);
}

TEST_F(CallRatesTest, AFloodOfOneCallerDoesNotSlowDownAnother) {
  Flood("ann", 1'000);
  EXPECT_EQ(Flood("bob", kAtOnce), kAtOnce);
}

TEST_F(CallRatesTest, WhoeverCallsAgainIsNotForgottenBeforeItHasRested) {
  Flood("ann", kAtOnce);
  for (int i = 0; i < 7; ++i) {  // over several renewals
    Pass(absl::Seconds(3));
    EXPECT_EQ(Flood("ann", 1'000), 12) << i;
  }
}

// Ann calls shortly before a renewal, and has saved up nothing after it.
TEST_F(CallRatesTest, ARenewalGivesNothingAway) {
  May("bob");
  Pass(absl::Seconds(9));
  Flood("ann", kAtOnce);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Flood("ann", 1'000), 4);
}

TEST_F(CallRatesTest, CallersThatRestedAreForgotten) {
  for (const char* caller : {"ann", "bob", "eve"}) May(caller);
  EXPECT_EQ(rates_.callers(), 3u);
  Pass(2 * CallRates::kSavedUp);
  May("ann");
  EXPECT_EQ(rates_.callers(), 1u);
}

TEST_F(CallRatesTest, BeyondTheBoundCallersShareOneRate) {
  for (const char* caller : {"ann", "bob", "eve"}) May(caller);
  int taken = 0;
  for (int i = 0; i < 1'000; ++i) taken += May(absl::StrCat("other-", i));
  EXPECT_EQ(taken, kAtOnce);
  EXPECT_EQ(rates_.callers(), 3u);
  EXPECT_EQ(Flood("ann", 1'000), kAtOnce - 1);  // whoever is known is not concerned
}

TEST_F(CallRatesTest, TheMemoryIsBounded) {
  for (int i = 0; i < 1'000; ++i) {
    Pass(absl::Milliseconds(100));
    May(absl::StrCat("caller-", i));
    EXPECT_LE(rates_.callers(), 6u);
  }
}

}  // namespace
}  // namespace dp::server

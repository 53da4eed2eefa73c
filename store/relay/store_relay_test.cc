#include "store/relay/store_relay.h"

#include <thread>
#include <utility>

#include "base/testing/settable_clock.h"
#include "store/relay/testing/store_relay_fixture.h"

namespace dp {
namespace {

using StoreRelayTest = StoreRelayFixture;

TEST_F(StoreRelayTest, AnUnansweredBatchTakesEffectOnce) {
  store_.LoseAnswers(3);
  EXPECT_EQ(Add("n", 5), 5);
  EXPECT_EQ(Add("n", 5), 10);
  EXPECT_EQ(store_.attempts(), 5);
  EXPECT_EQ(store_.value("n"), "10");
}

// Time passes whenever somebody looks at it.
class HastyClock final : public Clock {
 public:
  absl::Time Now() const override {
    clock_.Advance(absl::Microseconds(700));
    return clock_.Now();
  }

 private:
  mutable SettableClock clock_;
};

TEST_F(StoreRelayTest, ATimeToTryAgainThatComesWhileTheRelayLooksIsNotMissed) {
  const HastyClock clock;
  relay_ = std::make_unique<StoreRelay>(store_, Options(), clock);
  for (int i = 1; i <= 20; ++i) {
    store_.LoseAnswers(1);
    EXPECT_EQ(Add("n", 1), i);
  }
  relay_.reset();  // before its clock
}

TEST_F(StoreRelayTest, AnErrorIsItsCallersAlone) {
  EXPECT_EQ(Add("n", 1), 1);
  AwaitedAnswer bad;
  relay_->Execute({StoreSet{"word", "x"}, StoreAdd{"word", 1}}, bad.Take());
  EXPECT_EQ(bad.Wait().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Add("n", 1), 2);
}

TEST_F(StoreRelayTest, WhatFitsIntoNoMessageIsRefusedAndNotSent) {
  const std::vector<std::string> keys(3'000, std::string(8 << 10, 'k'));
  AwaitedAnswer check, wait;
  relay_->Execute({StoreCheck{keys}}, check.Take());
  relay_->Await({StoreGet{"k"}, StoreCheck{keys}}, wait.Take());
  EXPECT_EQ(check.Wait().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(wait.Wait().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store_.attempts(), 0);
  EXPECT_EQ(Add("n", 1), 1);
}

TEST_F(StoreRelayTest, TwoOfTheLargestValuesFitIntoAMessage) {
  const std::string key(1 << 20, 'k'), value(8 << 20, 'v');
  AwaitedAnswer swapped;
  relay_->Execute({StoreCompareSet{key, value, value}}, swapped.Take());
  EXPECT_EQ(swapped.Wait()->at(0).value, value);
}

TEST_F(StoreRelayTest, ManyKeysThatCanBeAskedForOneByOneFit) {
  std::vector<StoreOperation> reads(3'000, StoreGet{std::string(8 << 10, 'k')});
  AwaitedAnswer answer;
  relay_->Execute(std::move(reads), answer.Take());
  EXPECT_EQ(answer.Wait()->size(), 3'000U);
}

TEST_F(StoreRelayTest, AfterTheGenerationNothingIsAnsweredUntilTheRelayEnds) {
  AwaitedAnswer waiting, late, told;
  StoreRelayOptions options = Options();
  options.on_over = [done = std::make_shared<AsyncStore::Done>(told.Take())](
                        const absl::Status& why) { std::move (*done)(why); };
  relay_ = std::make_unique<StoreRelay>(store_, options);
  relay_->Await({StoreGet{"k"}}, waiting.Take());
  store_.AwaitParked(1);
  store_.EndGeneration();
  EXPECT_EQ(told.Wait().status().code(), absl::StatusCode::kFailedPrecondition);
  relay_->Execute({StoreAdd{"n", 1}}, late.Take());
  EXPECT_FALSE(waiting.given());
  relay_.reset();
  EXPECT_EQ(waiting.Wait().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(late.Wait().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(StoreRelayTest, AnAnswerThatMakesNoSenseIsEveryCallsAnswer) {
  AwaitedAnswer waiting, late;
  relay_->Await({StoreGet{"k"}}, waiting.Take());
  store_.AwaitParked(1);
  store_.LoseJournal();
  EXPECT_EQ(Add("n", 1), -1);
  EXPECT_EQ(waiting.Wait().status().code(), absl::StatusCode::kDataLoss);
  relay_->Execute({StoreGet{"k"}}, late.Take());
  EXPECT_EQ(late.Wait().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(StoreRelayTest, EightCallersAddThroughAnswersThatAreLost) {
  std::vector<std::jthread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([this, i] {
      for (int j = 0; j < 100; ++j) {
        if (i == 0 && j % 10 == 0) store_.LoseAnswers(2);
        EXPECT_GT(Add("n", 1), 0);
      }
    });
  }
  callers.clear();
  EXPECT_EQ(store_.value("n"), "800");
}

}  // namespace
}  // namespace dp

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "store/relay/store_relay.h"

namespace dp {
namespace {

constexpr absl::Duration kTurnPatience = absl::Seconds(30);
constexpr int kCalls = 1000;
constexpr int kTurns = 20;

// A coordinator that finds nothing, and counts the batches that it gets. Thread-safe.
class CountingLink final : public StoreLink {
 public:
  std::shared_ptr<Call> Execute(const RelayLedger::Batch& batch,
                                Done<RelayLedger::Reply> done) override {
    ++batches;
    std::move(done)(RelayLedger::Reply{std::vector<StoreResult>(batch.operations.size()), {}});
    return std::make_shared<Over>();
  }
  std::shared_ptr<Call> Await(const std::vector<StoreOperation>&, const Waiter&,
                              Done<std::vector<StoreResult>> done) override {
    std::move(done)(absl::UnavailableError("not here"));
    return std::make_shared<Over>();
  }

  std::atomic<int> batches = 0;

 private:
  struct Over final : Call {
    void Cancel() override {}
  };
};

// Counts answers down to zero. Thread-safe.
class Countdown {
 public:
  explicit Countdown(int count) : left_(count) {}
  AsyncStore::Done Take() {
    return [this](const AsyncStore::Results&) {
      MutexLock lock(mu_);
      if (--left_ == 0) over_.NotifyAll();
    };
  }
  bool Wait() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (left_ > 0) {
      if (!over_.WaitFor(mu_, kTurnPatience)) return false;
    }
    return true;
  }

 private:
  Mutex mu_;
  CondVar over_;
  int left_ DP_GUARDED_BY(mu_);
};

// The number of batches that carry the calls of one turn.
int BatchesOfATurn(StoreRelay& relay, const CountingLink& link) {
  const int before = link.batches;
  Countdown answers(kCalls);
  relay.BeginTurn();
  for (int i = 0; i < kCalls; ++i) {
    relay.Execute({StoreGet{"k"}}, answers.Take());
    std::this_thread::yield();  // a relay that was woken would send the call now
  }
  relay.EndTurn();
  EXPECT_TRUE(answers.Wait());
  return link.batches - before;
}

// A relay that is awake for another reason sends the calls that it finds. It mostly sleeps, so one
// of many turns needs only one batch.
TEST(StoreRelayTurnTest, WhatIsAskedInOneTurnTravelsInOneBatch) {
  CountingLink link;
  StoreRelay relay(link, {.job = JobId(1)});
  std::vector<int> batches;
  for (int turn = 0; turn < kTurns; ++turn) batches.push_back(BatchesOfATurn(relay, link));
  EXPECT_THAT(batches, testing::Contains(1));
}

TEST(StoreRelayTurnTest, CallsOfAThreadWithoutTurnsAreNotForgottenBesideThoseOfAnother) {
  CountingLink link;
  StoreRelay relay(link, {.job = JobId(1)});
  const std::jthread turning([&relay](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      relay.BeginTurn();
      relay.EndTurn();
    }
  });
  for (int i = 0; i < kCalls; ++i) {
    Countdown answer(1);
    relay.Execute({StoreGet{"k"}}, answer.Take());
    ASSERT_TRUE(answer.Wait());
  }
}

}  // namespace
}  // namespace dp

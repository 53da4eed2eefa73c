#include "base/store/relay/store_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "base/store/key_values.h"
#include "base/testing/settable_clock.h"

namespace dp {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

// A coordinator: applies batches once, parks waits, and can lose answers or go away. Thread-safe.
class FakeStore final : public StoreLink {
 public:
  // Applies the next batches, but says that it could not be reached.
  void LoseAnswers(int count) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    lose_ = count;
  }
  // Refuses all from now on, as a coordinator does that does not know the batches before.
  void LoseJournal() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    refusal_ = absl::DataLossError("sequence 2 does not follow the last, 0");
  }
  void EndGeneration() DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      refusal_ = absl::FailedPreconditionError("generation 1 is over");
    }
    DropParked();
  }
  // Ends parked calls as a restart does.
  void DropParked() DP_EXCLUDES(mu_) {
    for (auto& parked : TakeParked()) {
      std::move(parked->done)(absl::UnavailableError("the coordinator has gone"));
    }
  }
  // Ends parked calls in whose time nothing came.
  void EndParked() DP_EXCLUDES(mu_) {
    for (auto& parked : TakeParked()) {
      std::move(parked->done)(absl::DeadlineExceededError("nothing came"));
    }
  }
  // Ends parked calls as a coordinator does that has no room for them.
  void RefuseParked() DP_EXCLUDES(mu_) {
    for (auto& parked : TakeParked()) {
      std::move(parked->done)(absl::ResourceExhaustedError("too many calls wait"));
    }
  }
  // Another client's write.
  void Set(const std::string& key, const std::string& value) DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      (void)values_.Apply(std::vector<StoreOperation>{StoreSet{key, value}});
    }
    for (auto& parked : TakeParked()) Look(std::move(parked));
  }
  void AwaitParked(size_t count) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (parked_.size() != count) ASSERT_TRUE(changed_.WaitFor(mu_, kPatience));
  }
  std::string value(const std::string& key) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const std::string* value = values_.Find(key);
    return value == nullptr ? "" : *value;
  }
  // As the latest wait that was parked said it.
  Waiter waiter() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return waiter_;
  }
  int attempts() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return attempts_;
  }

  std::shared_ptr<Call> Execute(const RelayLedger::Batch& batch,
                                Done<RelayLedger::Reply> done) override {
    std::move(done)(Answered(batch));
    return std::make_shared<Parked>();
  }

  std::shared_ptr<Call> Await(const std::vector<StoreOperation>& reads, const Waiter& waiter,
                              Done<std::vector<StoreResult>> done) override {
    {
      MutexLock lock(mu_);
      waiter_ = waiter;
    }
    auto parked = std::make_shared<Parked>();
    parked->owner = this;
    parked->reads = reads;
    parked->done = std::move(done);
    Look(parked);
    return parked;
  }

 private:
  struct Parked final : Call {
    void Cancel() override {
      if (owner != nullptr && owner->Remove(this)) {
        std::move(done)(absl::CancelledError("by its caller"));
      }
    }

    FakeStore* owner = nullptr;
    std::vector<StoreOperation> reads;
    Done<std::vector<StoreResult>> done;
  };

  absl::StatusOr<RelayLedger::Reply> Answered(const RelayLedger::Batch& batch) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++attempts_;
    if (!refusal_.ok()) return refusal_;
    if (batch.sequence == 0 || batch.sequence != sequence_) answer_ = Apply(batch);
    if (batch.sequence != 0) sequence_ = batch.sequence;
    if (lose_ == 0) return answer_;
    --lose_;
    return absl::UnavailableError("connection reset");
  }

  RelayLedger::Reply Apply(const RelayLedger::Batch& batch) DP_REQUIRES(mu_) {
    RelayLedger::Reply reply;
    absl::Span<const StoreOperation> rest(batch.operations);
    for (size_t i = 0; i < batch.groups.size(); ++i) {
      auto applied = values_.Apply(rest.subspan(0, batch.groups[i]));
      rest.remove_prefix(batch.groups[i]);
      if (!applied.ok()) reply.refusals.push_back({i, applied.status()});
      const auto results =
          applied.ok() ? applied->results : std::vector<StoreResult>(batch.groups[i]);
      reply.results.insert(reply.results.end(), results.begin(), results.end());
    }
    return reply;
  }

  // Answers the wait, or parks it.
  void Look(std::shared_ptr<Parked> parked) DP_EXCLUDES(mu_) {
    AsyncStore::Results found;
    {
      MutexLock lock(mu_);
      if (!values_.Missing(parked->reads).empty()) {
        parked_.push_back(std::move(parked));
        changed_.NotifyAll();
        return;
      }
      found = values_.Read(parked->reads);
    }
    std::move(parked->done)(std::move(found));
  }

  std::vector<std::shared_ptr<Parked>> TakeParked() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return std::exchange(parked_, {});
  }
  bool Remove(const Parked* call) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const size_t removed =
        std::erase_if(parked_, [call](const auto& each) { return each.get() == call; });
    changed_.NotifyAll();
    return removed > 0;
  }

  Mutex mu_;
  CondVar changed_;
  KeyValues values_ DP_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<Parked>> parked_ DP_GUARDED_BY(mu_);
  RelayLedger::Reply answer_ DP_GUARDED_BY(mu_);  // to the last batch
  uint64_t sequence_ DP_GUARDED_BY(mu_) = 0;
  int lose_ DP_GUARDED_BY(mu_) = 0;
  int attempts_ DP_GUARDED_BY(mu_) = 0;
  Waiter waiter_ DP_GUARDED_BY(mu_);
  absl::Status refusal_ DP_GUARDED_BY(mu_);
};

// An answer that a test waits for. Thread-safe.
class Answer {
 public:
  AsyncStore::Done Take() {
    return [this](AsyncStore::Results results) {
      MutexLock lock(mu_);
      results_ = std::move(results);
      changed_.NotifyAll();
    };
  }
  AsyncStore::Results Wait() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!results_.has_value()) {
      if (!changed_.WaitFor(mu_, kPatience)) return absl::DeadlineExceededError("no answer");
    }
    return *results_;
  }
  bool given() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return results_.has_value();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::optional<AsyncStore::Results> results_ DP_GUARDED_BY(mu_);
};

class StoreRelayTest : public testing::Test {
 protected:
  static StoreRelayOptions Options() {
    StoreRelayOptions options{.job = JobId(1)};
    options.backoff = {.initial = absl::Milliseconds(1), .max = absl::Milliseconds(2)};
    options.room_backoff = options.backoff;
    return options;
  }
  int64_t Add(const std::string& key, int64_t amount) {
    Answer answer;
    relay_->Execute({StoreAdd{key, amount}}, answer.Take());
    const AsyncStore::Results results = answer.Wait();
    return results.ok() ? (*results)[0].number : -1;
  }

  FakeStore store_;
  std::unique_ptr<StoreRelay> relay_ = std::make_unique<StoreRelay>(store_, Options());
};

TEST_F(StoreRelayTest, AnUnansweredBatchTakesEffectOnce) {
  store_.LoseAnswers(3);
  EXPECT_EQ(Add("n", 5), 5);
  EXPECT_EQ(Add("n", 5), 10);
  EXPECT_EQ(store_.attempts(), 5);
  EXPECT_EQ(store_.value("n"), "10");
}

TEST_F(StoreRelayTest, AnErrorIsItsCallersAlone) {
  EXPECT_EQ(Add("n", 1), 1);
  Answer bad;
  relay_->Execute({StoreSet{"word", "x"}, StoreAdd{"word", 1}}, bad.Take());
  EXPECT_EQ(bad.Wait().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Add("n", 1), 2);
}

TEST_F(StoreRelayTest, WhatFitsIntoNoMessageIsRefusedAndNotSent) {
  const std::vector<std::string> keys(3'000, std::string(8 << 10, 'k'));
  Answer check, wait;
  relay_->Execute({StoreCheck{keys}}, check.Take());
  relay_->Await({StoreGet{"k"}, StoreCheck{keys}}, wait.Take());
  EXPECT_EQ(check.Wait().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(wait.Wait().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store_.attempts(), 0);
  EXPECT_EQ(Add("n", 1), 1);
}

TEST_F(StoreRelayTest, TwoOfTheLargestValuesFitIntoAMessage) {
  const std::string key(1 << 20, 'k'), value(8 << 20, 'v');
  Answer swapped;
  relay_->Execute({StoreCompareSet{key, value, value}}, swapped.Take());
  EXPECT_EQ(swapped.Wait()->at(0).value, value);
}

TEST_F(StoreRelayTest, ManyKeysThatCanBeAskedForOneByOneFit) {
  std::vector<StoreOperation> reads(3'000, StoreGet{std::string(8 << 10, 'k')});
  Answer answer;
  relay_->Execute(std::move(reads), answer.Take());
  EXPECT_EQ(answer.Wait()->size(), 3'000U);
}

TEST_F(StoreRelayTest, AParkedWaitIsArmedAgainAfterARestart) {
  Answer answer;
  relay_->Await({StoreGet{"k"}}, answer.Take());
  for (int i = 0; i < 3; ++i) {
    store_.AwaitParked(1);
    store_.DropParked();
  }
  store_.AwaitParked(1);
  EXPECT_FALSE(answer.given());
  store_.Set("k", "v");
  EXPECT_EQ(answer.Wait()->at(0).value, "v");
}

TEST_F(StoreRelayTest, AWaitThatIsGivenUpEndsCancelledAndLeavesNothingParked) {
  Answer answer;
  const AsyncStore::Ticket ticket = relay_->Await({StoreGet{"k"}}, answer.Take());
  store_.AwaitParked(1);
  relay_->Cancel(ticket);
  EXPECT_EQ(answer.Wait().status().code(), absl::StatusCode::kCancelled);
  store_.AwaitParked(0);
}

TEST_F(StoreRelayTest, AWaitThatIsParkedAgainTellsHowLongItHasWaited) {
  SettableClock clock;
  relay_ = std::make_unique<StoreRelay>(store_, Options(), clock);
  Answer answer;
  relay_->Await({StoreGet{"k"}}, answer.Take());
  store_.AwaitParked(1);
  EXPECT_EQ(store_.waiter().waited, absl::ZeroDuration());
  clock.Advance(absl::Seconds(10));
  store_.EndParked();  // as the time of one parking does
  store_.AwaitParked(1);
  EXPECT_EQ(store_.waiter().waited, absl::Seconds(10));
  relay_.reset();
}

TEST_F(StoreRelayTest, AWaitTellsItsCallersEndOfTheConnectionWheneverItIsParked) {
  Answer answer;
  relay_->Await({StoreGet{"k"}}, answer.Take(), "10.0.0.2:40312");
  for (int parking = 0; parking < 2; ++parking) {
    store_.AwaitParked(1);
    EXPECT_EQ(store_.waiter().peer, "10.0.0.2:40312");
    store_.EndParked();
  }
  store_.AwaitParked(1);
  relay_.reset();
}

TEST_F(StoreRelayTest, AWaitThatIsGivenUpDelaysNobody) {
  const SettableClock clock;  // a pause would never end
  relay_ = std::make_unique<StoreRelay>(store_, Options(), clock);
  Answer given_up;
  const AsyncStore::Ticket ticket = relay_->Await({StoreGet{"k"}}, given_up.Take());
  store_.AwaitParked(1);
  relay_->Cancel(ticket);
  EXPECT_EQ(given_up.Wait().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Add("n", 1), 1);
  EXPECT_EQ(Add("n", 1), 2);
  relay_.reset();
}

TEST_F(StoreRelayTest, AWaitForWhichThereIsNoRoomPausesAloneAndIsAskedAgain) {
  SettableClock clock;
  relay_ = std::make_unique<StoreRelay>(store_, Options(), clock);
  Answer answer;
  relay_->Await({StoreGet{"k"}}, answer.Take());
  for (int round = 0; round < 3; ++round) {
    store_.AwaitParked(1);
    store_.RefuseParked();
    const int attempts = store_.attempts();
    EXPECT_EQ(Add("n", 1), 2 * round + 1);  // a pause of the relay would never end
    EXPECT_EQ(Add("n", 1), 2 * round + 2);
    EXPECT_EQ(store_.attempts(), attempts + 2);  // and none of them was the wait's
    clock.Advance(Options().room_backoff.max);
  }
  store_.AwaitParked(1);
  store_.Set("k", "v");
  EXPECT_EQ(answer.Wait()->at(0).value, "v");
  relay_.reset();
}

TEST_F(StoreRelayTest, AWaitThatIsGivenUpWhileItPausesIsNotAskedAgain) {
  SettableClock clock;
  relay_ = std::make_unique<StoreRelay>(store_, Options(), clock);
  Answer answer;
  const AsyncStore::Ticket ticket = relay_->Await({StoreGet{"k"}}, answer.Take());
  store_.AwaitParked(1);
  store_.RefuseParked();
  relay_->Cancel(ticket);
  EXPECT_EQ(answer.Wait().status().code(), absl::StatusCode::kCancelled);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(Add("n", 1), 1);
  EXPECT_EQ(store_.attempts(), 2);
  relay_.reset();
}

TEST_F(StoreRelayTest, AWaitTakesOnlyReads) {
  Answer answer;
  relay_->Await({StoreAdd{"n", 1}}, answer.Take());
  EXPECT_EQ(answer.Wait().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(StoreRelayTest, AfterTheGenerationNothingIsAnsweredUntilTheRelayEnds) {
  Answer waiting, late, told;
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
  Answer waiting, late;
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

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "store/key_values.h"
#include "store/relay/store_relay.h"

namespace dp {

inline constexpr absl::Duration kRelayPatience = absl::Seconds(30);

// A coordinator that applies batches once and parks waits. It can lose answers, or go away.
// Thread-safe.
class FakeStoreLink final : public StoreLink {
 public:
  // Applies the next `count` batches, but answers as if it was out of reach.
  void LoseAnswers(int count) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    lose_ = count;
  }
  // Rejects everything from now on, as a coordinator that does not know the earlier batches.
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
  // Ends parked calls, as a restart does.
  void DropParked() DP_EXCLUDES(mu_) {
    for (auto& parked : TakeParked()) {
      std::move(parked->done)(absl::UnavailableError("the coordinator has gone"));
    }
  }
  // Ends parked calls, as their timeout does.
  void EndParked() DP_EXCLUDES(mu_) {
    for (auto& parked : TakeParked()) {
      std::move(parked->done)(absl::DeadlineExceededError("nothing came"));
    }
  }
  // Ends parked calls, as a coordinator without room does.
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
    while (parked_.size() != count) ASSERT_TRUE(changed_.WaitFor(mu_, kRelayPatience));
  }
  std::string value(const std::string& key) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const std::string* value = values_.Find(key);
    return value == nullptr ? "" : *value;
  }
  // The Waiter of the latest parked wait.
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

    FakeStoreLink* owner = nullptr;
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

// An answer that a test can wait for. Thread-safe.
class AwaitedAnswer {
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
      if (!changed_.WaitFor(mu_, kRelayPatience)) return absl::DeadlineExceededError("no answer");
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

// A relay to a FakeStoreLink.
class StoreRelayFixture : public testing::Test {
 protected:
  static StoreRelayOptions Options() {
    StoreRelayOptions options{.job = JobId(1)};
    options.backoff = {.initial = absl::Milliseconds(1), .max = absl::Milliseconds(2)};
    options.room_backoff = options.backoff;
    return options;
  }
  int64_t Add(const std::string& key, int64_t amount) {
    AwaitedAnswer answer;
    relay_->Execute({StoreAdd{key, amount}}, answer.Take());
    const AsyncStore::Results results = answer.Wait();
    return results.ok() ? (*results)[0].number : -1;
  }

  FakeStoreLink store_;
  std::unique_ptr<StoreRelay> relay_ = std::make_unique<StoreRelay>(store_, Options());
};

}  // namespace dp

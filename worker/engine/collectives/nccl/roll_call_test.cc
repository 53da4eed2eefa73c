#include "worker/engine/collectives/nccl/roll_call.h"

#include "base/testing/settable_clock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"

namespace dp::engine {
namespace {

// A store that cannot be reached for a while, and counts what it was asked.
class FailingStore final : public Store {
 public:
  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    ++asked;
    if (!status.ok()) return status;
    return store_.Execute(operations);
  }
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override {
    return store_.Await(reads, timeout);
  }

  int asked = 0;
  absl::Status status;

 private:
  HashStore store_;
};

class RollCallTest : public testing::Test {
 protected:
  void Suspect(RollCall& rank) {
    rank.Tell({.arrived = 1, .beating = true, .asking = true, .fresh_from = clock_.Now()});
  }

  SettableClock clock_;
  FailingStore store_;
  const RollCall::Options options_{"roll", absl::Seconds(1), absl::Seconds(5)};
  RollCall one_{store_, 0, 2, options_, clock_};
  RollCall two_{store_, 1, 2, options_, clock_};
};

TEST_F(RollCallTest, WithoutASuspicionTheStoreIsNotAsked) {
  one_.Step();
  EXPECT_EQ(store_.asked, 0);
}

TEST_F(RollCallTest, ARankThatSuspectsHearsWhereItsPeerIs) {
  Suspect(two_);
  two_.Step();
  Suspect(one_);
  one_.Step();
  EXPECT_EQ(one_.Ask().read_at, clock_.Now());
}

TEST_F(RollCallTest, AfterAnErrorOfTheStoreItIsAskedAgainOneIntervalLater) {
  store_.status = absl::UnavailableError("nobody there");
  Suspect(one_);
  one_.Step();
  EXPECT_EQ(one_.Ask().read_at, absl::InfinitePast());
  store_.status = absl::OkStatus();
  one_.Step();
  EXPECT_EQ(store_.asked, 1);  // too early
  clock_.Advance(options_.interval);
  one_.Step();
  EXPECT_EQ(store_.asked, 2);
  EXPECT_EQ(one_.Ask().read_at, clock_.Now());
}

}  // namespace
}  // namespace dp::engine

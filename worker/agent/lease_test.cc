#include "worker/agent/lease.h"

#include <atomic>
#include <deque>
#include <optional>
#include <variant>

#include "base/testing/settable_clock.h"
#include "base/timeouts.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fake_coordinator.h"

namespace dp::worker {
namespace {

// Only calls and probes advance the clock.
class LeaseTest : public testing::Test {
 protected:
  static constexpr absl::Duration kCallTakes = absl::Milliseconds(1);

  LeaseTest() {
    coordinator_.During([this] {
      asked_for_gpus_before_.push_back(asked_for_gpus_);
      clock_.Advance(kCallTakes);
    });
    lease_.emplace(
        coordinator_.connection(), [] { return v1::RegisterRequest(); },
        Lease::Surroundings{.clock = clock_,
                            .coordinator_absent =
                                [this] {
                                  probed_at_.emplace_back(clock_.Now());
                                  clock_.Advance(probe_takes_);
                                  return true;
                                },
                            .gpus_since =
                                [this](uint64_t*) {
                                  ++asked_for_gpus_;
                                  return std::vector<v1::Gpu>();
                                }},
        /*seed=*/1, mailbox_);
    lease_->Begin(Incarnation(1));
  }
  ~LeaseTest() override {
    coordinator_.CancelAll();
    lease_.reset();
  }

  // The next message; absent if none comes in time.
  std::optional<Message> Next() {
    if (arrived_.empty()) {
      for (Message& each : mailbox_.DrainFor(absl::Seconds(20))) arrived_.push_back(each);
    }
    if (arrived_.empty()) return std::nullopt;
    Message next = std::move(arrived_.front());
    arrived_.pop_front();
    return next;
  }
  // The next LeaseHeld's time; InfinitePast if none comes in time.
  absl::Time NextHeld() {
    while (const std::optional<Message> next = Next()) {
      if (const auto* held = std::get_if<LeaseHeld>(&*next)) return held->until;
    }
    return absl::InfinitePast();
  }
  // Until a call has failed. Returns how often the lease was held before, since the last message.
  int HeldUntilSilent() {
    int held = 0;
    while (const std::optional<Message> next = Next()) {
      if (std::holds_alternative<CoordinatorSilent>(*next)) return held;
      held += std::holds_alternative<LeaseHeld>(*next);
    }
    ADD_FAILURE() << "no call has failed";
    return held;
  }

  // For the fake coordinator's lease.
  const absl::Duration within_ = IsolationWithin(absl::Milliseconds(80));
  SettableClock clock_;
  const absl::Time start_ = clock_.Now();
  absl::Duration probe_takes_ = absl::Milliseconds(10);  // before nobody listens
  std::vector<absl::Time> probed_at_;                    // on the lease's thread
  std::atomic<int> asked_for_gpus_ = 0;
  std::vector<int> asked_for_gpus_before_;  // each call
  Mailbox mailbox_;
  std::deque<Message> arrived_;
  FakeCoordinator coordinator_;
  std::optional<Lease> lease_;
};

// The coordinator hears a call after it was sent, and may evict the worker a whole lease later. The
// ranks must be dead by then.
TEST_F(LeaseTest, ItIsHeldForLessThanATermFromTheSendingOfWhatWasAnswered) {
  EXPECT_EQ(NextHeld(), start_ + within_);
  EXPECT_EQ(NextHeld(), start_ + kCallTakes + within_);
  EXPECT_EQ(NextHeld(), start_ + 2 * kCallTakes + within_);
}

TEST_F(LeaseTest, ARegistrationTellsOfTheGpus) {
  NextHeld();
  coordinator_.CancelAll();
  lease_.reset();  // before reading what its thread wrote
  EXPECT_EQ(asked_for_gpus_before_.at(0), 1);
}

TEST_F(LeaseTest, WhereNobodyListensItIsHeldFromWhenThatWasAsked) {
  EXPECT_EQ(NextHeld(), start_ + within_);
  coordinator_.SetReachable(false);
  HeldUntilSilent();
  const absl::Time held = NextHeld();
  coordinator_.CancelAll();
  lease_.reset();  // before reading what its thread wrote
  EXPECT_EQ(held, probed_at_.at(0) + within_);
}

// The coordinator may have evicted the worker just before it went.
TEST_F(LeaseTest, OnceItHasRunOutOnlyAnAnswerHoldsItAgain) {
  probe_takes_ = within_;
  EXPECT_EQ(NextHeld(), start_ + within_);
  coordinator_.SetReachable(false);
  HeldUntilSilent();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(HeldUntilSilent(), 0);
  coordinator_.SetReachable(true);
  EXPECT_GT(NextHeld(), start_ + within_);
}

}  // namespace
}  // namespace dp::worker

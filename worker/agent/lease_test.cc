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
  static constexpr absl::Duration kCallTakes = absl::Seconds(1);
  static constexpr absl::Duration kProbeTakes = absl::Hours(1);

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
                                  clock_.Advance(kProbeTakes);
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

  // The next LeaseHeld's time; InfinitePast if none comes in time.
  absl::Time NextHeld() {
    for (;;) {
      if (arrived_.empty()) {
        for (Message& each : mailbox_.DrainFor(absl::Seconds(20))) arrived_.push_back(each);
      }
      if (arrived_.empty()) return absl::InfinitePast();
      const Message event = std::move(arrived_.front());
      arrived_.pop_front();
      if (const auto* held = std::get_if<LeaseHeld>(&event)) return held->until;
    }
  }

  // For the fake coordinator's lease.
  const absl::Duration within_ = IsolationWithin(absl::Milliseconds(80));
  SettableClock clock_;
  const absl::Time start_ = clock_.Now();
  std::vector<absl::Time> probed_at_;  // on the lease's thread
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
  absl::Time held = NextHeld();
  while (held != absl::InfinitePast() && held - start_ < kProbeTakes) held = NextHeld();
  ASSERT_GE(held - start_, kProbeTakes) << "nothing was probed";
  coordinator_.CancelAll();
  lease_.reset();  // before reading what its thread wrote
  ASSERT_GE(probed_at_.size(), 2u);
  EXPECT_EQ(held, probed_at_[1] + within_);
}

}  // namespace
}  // namespace dp::worker

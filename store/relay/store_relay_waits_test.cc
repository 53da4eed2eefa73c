// Waits through a relay: parked, parked again, cancelled, and rejected for lack of room.

#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "base/testing/settable_clock.h"
#include "store/relay/testing/store_relay_fixture.h"

namespace dp {
namespace {

using StoreRelayWaitsTest = StoreRelayFixture;

TEST_F(StoreRelayWaitsTest, AParkedWaitIsArmedAgainAfterARestart) {
  AwaitedAnswer answer;
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

TEST_F(StoreRelayWaitsTest, AWaitThatIsGivenUpEndsCancelledAndLeavesNothingParked) {
  AwaitedAnswer answer;
  const AsyncStore::Ticket ticket = relay_->Await({StoreGet{"k"}}, answer.Take());
  store_.AwaitParked(1);
  relay_->Cancel(ticket);
  EXPECT_EQ(answer.Wait().status().code(), absl::StatusCode::kCancelled);
  store_.AwaitParked(0);
}

TEST_F(StoreRelayWaitsTest, AWaitThatIsParkedAgainTellsHowLongItHasWaited) {
  SettableClock clock;
  relay_ = std::make_unique<StoreRelay>(store_, Options(), clock);
  AwaitedAnswer answer;
  relay_->Await({StoreGet{"k"}}, answer.Take());
  store_.AwaitParked(1);
  EXPECT_EQ(store_.waiter().waited, absl::ZeroDuration());
  clock.Advance(absl::Seconds(10));
  store_.EndParked();  // as the timeout of a parking does
  store_.AwaitParked(1);
  EXPECT_EQ(store_.waiter().waited, absl::Seconds(10));
  relay_.reset();
}

TEST_F(StoreRelayWaitsTest, AWaitTellsItsCallersEndOfTheConnectionWheneverItIsParked) {
  AwaitedAnswer answer;
  relay_->Await({StoreGet{"k"}}, answer.Take(), "10.0.0.2:40312");
  for (int parking = 0; parking < 2; ++parking) {
    store_.AwaitParked(1);
    EXPECT_EQ(store_.waiter().peer, "10.0.0.2:40312");
    store_.EndParked();
  }
  store_.AwaitParked(1);
  relay_.reset();
}

TEST_F(StoreRelayWaitsTest, AWaitThatIsGivenUpDelaysNobody) {
  const SettableClock clock;  // never advances: a pause would never end
  relay_ = std::make_unique<StoreRelay>(store_, Options(), clock);
  AwaitedAnswer given_up;
  const AsyncStore::Ticket ticket = relay_->Await({StoreGet{"k"}}, given_up.Take());
  store_.AwaitParked(1);
  relay_->Cancel(ticket);
  EXPECT_EQ(given_up.Wait().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Add("n", 1), 1);
  EXPECT_EQ(Add("n", 1), 2);
  relay_.reset();
}

TEST_F(StoreRelayWaitsTest, AWaitForWhichThereIsNoRoomPausesAloneAndIsAskedAgain) {
  SettableClock clock;
  testing::internal::CaptureStderr();
  relay_ = std::make_unique<StoreRelay>(store_, Options(), clock);
  AwaitedAnswer answer;
  relay_->Await({StoreGet{"k"}}, answer.Take());
  for (int round = 0; round < 3; ++round) {
    store_.AwaitParked(1);
    store_.RefuseParked();
    const int attempts = store_.attempts();
    EXPECT_EQ(Add("n", 1), 2 * round + 1);  // a pause of the whole relay would never end
    EXPECT_EQ(Add("n", 1), 2 * round + 2);
    EXPECT_EQ(store_.attempts(), attempts + 2);  // and none of the attempts was the wait's
    clock.Advance(Options().room_backoff.max);
  }
  store_.AwaitParked(1);
  store_.Set("k", "v");
  EXPECT_EQ(answer.Wait()->at(0).value, "v");
  relay_.reset();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("store_wait_refused"), said.rfind("store_wait_refused")) << said;
  EXPECT_THAT(said, testing::HasSubstr("store_wait_refused"));
}

TEST_F(StoreRelayWaitsTest, AWaitThatIsGivenUpWhileItPausesIsNotAskedAgain) {
  SettableClock clock;
  relay_ = std::make_unique<StoreRelay>(store_, Options(), clock);
  AwaitedAnswer answer;
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

TEST_F(StoreRelayWaitsTest, AWaitTakesOnlyReads) {
  AwaitedAnswer answer;
  relay_->Await({StoreAdd{"n", 1}}, answer.Take());
  EXPECT_EQ(answer.Wait().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dp

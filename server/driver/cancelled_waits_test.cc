#include "server/driver/cancelled_waits.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;

class CancelledWaitsTest : public ::testing::Test {
 protected:
  void Park(Waiters::Ticket ticket) {
    waiters_.Park({ticket, {}, absl::InfiniteFuture(), [this, ticket](Waiters::Wake wake, auto) {
                     if (wake == Waiters::Wake::kChanged) return false;
                     ended_.push_back(ticket);
                     return true;
                   }});
  }

  static constexpr size_t kQueueCapacity = 10;
  Waiters waiters_{Waiters::Capacity{}};
  CancelledWaits cancelled_{kQueueCapacity};
  std::vector<Waiters::Ticket> ended_;
};

TEST_F(CancelledWaitsTest, AWaitThatIsParkedEndsAtOnce) {
  Park(1);
  cancelled_.Add({1});
  cancelled_.Cancel(waiters_, /*taken=*/4, /*more=*/true);
  EXPECT_THAT(ended_, ElementsAre(1));
  EXPECT_TRUE(cancelled_.empty());
}

TEST_F(CancelledWaitsTest, AWaitBehindTheBatchEndsOnceItIsParked) {
  cancelled_.Add({1});
  cancelled_.Cancel(waiters_, /*taken=*/4, /*more=*/true);
  Park(1);
  cancelled_.Cancel(waiters_, /*taken=*/4, /*more=*/true);
  EXPECT_THAT(ended_, ElementsAre(1));
  EXPECT_TRUE(cancelled_.empty());
}

TEST_F(CancelledWaitsTest, AWaitThatWasAnsweredIsForgottenWithTheQueueThatItMayHaveBeenIn) {
  cancelled_.Add({1});
  cancelled_.Cancel(waiters_, /*taken=*/6, /*more=*/true);
  cancelled_.Add({2});
  cancelled_.Cancel(waiters_, /*taken=*/6, /*more=*/true);
  EXPECT_FALSE(cancelled_.empty());  // the second may still be queued
  cancelled_.Cancel(waiters_, /*taken=*/4, /*more=*/true);
  EXPECT_TRUE(cancelled_.empty());
}

TEST_F(CancelledWaitsTest, ABatchThatTakesAllLeavesNone) {
  cancelled_.Add({1});
  cancelled_.Cancel(waiters_, /*taken=*/1, /*more=*/false);
  EXPECT_TRUE(cancelled_.empty());
}

}  // namespace
}  // namespace dp::server

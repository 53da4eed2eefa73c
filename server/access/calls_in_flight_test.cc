#include "server/access/calls_in_flight.h"

#include "gtest/gtest.h"

namespace dp::server {
namespace {

class CallsInFlightTest : public testing::Test {
 protected:
  CallsInFlight calls_;
  const char first_ = 0, second_ = 0, third_ = 0;
};

TEST_F(CallsInFlightTest, EachCallCountsForItsCallerUntilItEnds) {
  calls_.Begin(&first_, "ann"), calls_.Begin(&second_, "ann"), calls_.Begin(&third_, "bob");
  EXPECT_EQ(calls_.Of("ann"), 2u);
  EXPECT_EQ(calls_.Of("bob"), 1u);
  calls_.End(&first_);
  EXPECT_EQ(calls_.Of("ann"), 1u);
  EXPECT_EQ(calls_.Of("eve"), 0u);
}

TEST_F(CallsInFlightTest, ACallBeginsAndEndsOnce) {
  calls_.Begin(&first_, "ann"), calls_.Begin(&first_, "bob");
  EXPECT_EQ(calls_.Of("ann"), 1u);
  EXPECT_EQ(calls_.Of("bob"), 0u);
  calls_.End(&first_), calls_.End(&first_);
  EXPECT_EQ(calls_.Of("ann"), 0u);
  EXPECT_EQ(calls_.size(), 0u);
}

}  // namespace
}  // namespace dp::server

#include "client/dpctl/program/signal_thread.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace dp::ctl {
namespace {

TEST(SignalThreadTest, OnlyCtrlCCountsTwice) {
  Interrupts interrupts;
  const SignalThread signals(interrupts);
  ASSERT_EQ(kill(getpid(), SIGHUP), 0);
  ASSERT_TRUE(interrupts.Await(1, absl::InfiniteDuration()));
  for (const int signal : {SIGTERM, SIGHUP}) ASSERT_EQ(kill(getpid(), signal), 0);
  EXPECT_FALSE(interrupts.Await(2, absl::Milliseconds(100)));
  ASSERT_EQ(kill(getpid(), SIGINT), 0);
  EXPECT_TRUE(interrupts.Await(2, absl::InfiniteDuration()));
}

}  // namespace
}  // namespace dp::ctl

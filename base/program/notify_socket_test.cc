#include "base/program/notify_socket.h"

#include <cstdlib>

#include "base/testing/notify_listener.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

class NotifySocketTest : public testing::Test {
 protected:
  NotifyListener manager_;
  NotifySocket socket_{manager_.name(), absl::Seconds(30)};
};

TEST_F(NotifySocketTest, TellsWhenTheServiceWorksAndWhenItEnds) {
  socket_.Ready("listening");
  socket_.Status("idle");
  socket_.Stopping();
  EXPECT_EQ(manager_.Next(), "READY=1\nSTATUS=listening");
  EXPECT_EQ(manager_.Next(), "STATUS=idle");
  EXPECT_EQ(manager_.Next(), "STOPPING=1");
}

TEST_F(NotifySocketTest, ALoopThatTurnsFastIsToldOnceAPulse) {
  EXPECT_EQ(socket_.pulse(), absl::Seconds(10));
  socket_.Alive(kStart);
  socket_.Alive(kStart + absl::Seconds(9));
  socket_.Alive(kStart + absl::Seconds(10));
  EXPECT_EQ(manager_.Next(), "WATCHDOG=1");
  EXPECT_EQ(manager_.Next(), "WATCHDOG=1");
  EXPECT_EQ(manager_.Next(), "");
}

TEST_F(NotifySocketTest, AClockThatIsSetBackDoesNotSilenceIt) {
  socket_.Alive(kStart);
  socket_.Alive(kStart - absl::Hours(1));
  EXPECT_EQ(manager_.Next(), "WATCHDOG=1");
  EXPECT_EQ(manager_.Next(), "WATCHDOG=1");
}

TEST_F(NotifySocketTest, TheEnvironmentNamesTheSocketAndChildrenDoNotInheritIt) {
  setenv("NOTIFY_SOCKET", manager_.name().c_str(), 1);
  setenv("WATCHDOG_USEC", "60000000", 1);
  const NotifySocket taken = NotifySocket::TakeFromEnvironment();
  taken.Ready("on");
  EXPECT_EQ(manager_.Next(), "READY=1\nSTATUS=on");
  EXPECT_EQ(taken.pulse(), absl::Seconds(20));
  EXPECT_EQ(getenv("NOTIFY_SOCKET"), nullptr);
  EXPECT_EQ(getenv("WATCHDOG_USEC"), nullptr);
}

TEST_F(NotifySocketTest, AWatchdogOfAnotherProcessIsNotOurs) {
  setenv("NOTIFY_SOCKET", manager_.name().c_str(), 1);
  setenv("WATCHDOG_USEC", "60000000", 1);
  setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(NotifySocket::TakeFromEnvironment().pulse(), absl::InfiniteDuration());
}

TEST(NoNotifySocketTest, WithoutAManagerNothingIsTold) {
  NotifySocket socket = NotifySocket::TakeFromEnvironment();
  socket.Ready("on");
  socket.Alive(kStart);
  EXPECT_EQ(socket.pulse(), absl::InfiniteDuration());
}

TEST(NoNotifySocketTest, ASocketThatIsNotThereIsNoFailure) {
  NotifySocket socket("/nonexistent/socket", absl::Seconds(30));
  socket.Ready("on");
  EXPECT_EQ(socket.pulse(), absl::InfiniteDuration());
}

}  // namespace
}  // namespace dp

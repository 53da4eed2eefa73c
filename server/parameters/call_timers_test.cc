#include "server/parameters/call_timers.h"

#include <future>
#include <memory>

#include "gtest/gtest.h"

namespace dp::server {
namespace {

TEST(CallTimersTest, TheEarlierTimerIsCalledFirst) {
  CallTimers timers;
  std::promise<int> first;
  timers.After(absl::Hours(1), [&first] { first.set_value(1); });
  timers.After(absl::ZeroDuration(), [&first] { first.set_value(2); });
  EXPECT_EQ(first.get_future().get(), 2);
}

TEST(CallTimersTest, ACancelledTimerIsDropped) {
  CallTimers timers;
  auto held = std::make_shared<int>();
  const CallTimers::Id id = timers.After(absl::Hours(1), [held] {});
  EXPECT_EQ(held.use_count(), 2);
  timers.Cancel(id);
  EXPECT_EQ(held.use_count(), 1);
  timers.Cancel(id);
}

}  // namespace
}  // namespace dp::server

#include "worker/engine/device/device_threads.h"

#include <stdexcept>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

TEST(DeviceThreadsTest, DevicesWorkAtTheSameTime) {
  DeviceThreads threads(3);
  absl::Barrier* all = new absl::Barrier(3);  // the last to leave deletes it
  std::vector<int> done(3);
  threads.Run(0, 3, [&](int device) {
    if (all->Block()) delete all;
    done[static_cast<size_t>(device)] = device + 1;
  });
  EXPECT_THAT(done, ::testing::ElementsAre(1, 2, 3));
}

TEST(DeviceThreadsTest, EachDeviceKeepsItsThread) {
  DeviceThreads threads(3);
  std::vector<std::thread::id> before(3), after(3);
  const auto note = [](std::vector<std::thread::id>& ids) {
    return [&ids](int device) { ids[static_cast<size_t>(device)] = std::this_thread::get_id(); };
  };
  threads.Run(0, 3, note(before));
  for (int device = 0; device < 3; ++device) threads.Run(device, 1, note(after));
  EXPECT_EQ(before, after);
  EXPECT_NE(before[0], before[1]);
  EXPECT_NE(before[0], std::this_thread::get_id());
}

TEST(DeviceThreadsTest, AnExceptionReachesTheCallerOnce) {
  DeviceThreads threads(2);
  const auto fail = [](int device) {
    if (device == 1) throw std::runtime_error("no memory");
  };
  EXPECT_THROW(threads.Run(0, 2, fail), std::runtime_error);
  threads.Run(0, 2, [](int) {});
}

TEST(DeviceThreadsTest, OnlyDevicesThatWorkAreBusy) {
  DeviceThreads threads(2);
  threads.Run(1, 1, [](int) {});
  EXPECT_EQ(threads.busy()[0], absl::ZeroDuration());
  EXPECT_GT(threads.busy()[1], absl::ZeroDuration());
}

}  // namespace
}  // namespace dp::engine

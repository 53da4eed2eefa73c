#pragma once

#include <cstddef>
#include <future>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/driver/driver.h"

namespace dp::server {

inline constexpr absl::Duration kLong = absl::Seconds(30);

// For tests: returns once so many calls are parked with the driver.
inline void AwaitParked(Driver& driver, size_t calls) {
  const absl::Time deadline = absl::Now() + kLong;
  for (size_t parked = ~size_t{0}; parked != calls;) {
    ASSERT_LT(absl::Now(), deadline);
    std::promise<size_t> answer;
    ASSERT_TRUE(driver
                    .Ask([&](const absl::Status&, const View& view) {
                      answer.set_value(view.waiters.size());
                    })
                    .ok());
    parked = answer.get_future().get();
  }
}

}  // namespace dp::server

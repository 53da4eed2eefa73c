#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace dp::worker {

// When bytes of a stream were found: `time` holds from `offset` up to the next entry's offset.
struct LogTime {
  uint64_t offset = 0;
  absl::Time time;

  bool operator==(const LogTime&) const = default;
};

// Remembers when the unsent bytes were found. Past `max` entries it forgets every second one, whose
// bytes then take the time of the bytes before them. Not thread-safe.
class LogTimes {
 public:
  explicit LogTimes(size_t max = 4096) : max_(max) {}

  // Bytes from `offset` on were found. Offsets must not decrease.
  void Add(uint64_t offset, absl::Time time);
  // Nobody will ask for bytes before `offset` any more.
  void ForgetBefore(uint64_t offset);
  // The times of the bytes [begin, end). The first entry is at `begin`, unless its time is unknown.
  std::vector<LogTime> Of(uint64_t begin, uint64_t end) const;

 private:
  const size_t max_;
  std::vector<LogTime> times_;
};

}  // namespace dp::worker

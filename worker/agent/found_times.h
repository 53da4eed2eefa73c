#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace dp::worker {

// When the bytes of a stream were found: those from `offset` on, up to the next one's, at `time`.
struct FoundTime {
  uint64_t offset = 0;
  absl::Time time;

  bool operator==(const FoundTime&) const = default;
};

// Remembers that for the bytes that wait to be sent. Holds no more than `max`: past it every second
// is forgotten, whose bytes then count as found with those before them. Not thread-safe.
class FoundTimes {
 public:
  explicit FoundTimes(size_t max = 4096) : max_(max) {}

  // Bytes from `offset` on were found; not before those that were found last.
  void Add(uint64_t offset, absl::Time time);
  // Nobody asks for bytes before `offset` any more.
  void ForgetBefore(uint64_t offset);
  // Those of the bytes [begin, end): the first of them is `begin`, unless its time is not known.
  std::vector<FoundTime> Of(uint64_t begin, uint64_t end) const;

 private:
  const size_t max_;
  std::vector<FoundTime> times_;
};

}  // namespace dp::worker

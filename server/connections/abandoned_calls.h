#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "server/connections/stream_counts.h"

namespace dp::server {

// Finds connections whose other side begins calls, such as those that it resets at once, and goes
// on although the gate rejects them. To read the headers of a call costs gRPC as much as 30 bytes
// cost the caller, and more than its network.
//
// Only gRPC knows which connection a rejected call has come on. To ask it takes time for each
// connection (CountStreams), so it is asked when many calls were rejected, and never for long.
// Pure: time is an argument. Not thread-safe.
class AbandonedCalls {
 public:
  struct Limits {
    // A connection may begin so many calls whose messages never come: as many as a person may begin
    // at once by default. On that of a stranger, few calls can do anything at all.
    uint64_t of_connection = 2'000;
    uint64_t of_stranger = 100;
    // The connections are looked at after so many rejected calls.
    uint64_t rejected = 1'000;
  };
  // How often a look may be due.
  static constexpr absl::Duration kLookEvery = absl::Milliseconds(100);
  // The part of time that looks may take.
  static constexpr double kTimeOfLooks = 0.1;

  explicit AbandonedCalls(const Limits& limits) : limits_(limits) {}

  // `rejected`: calls, since the start.
  bool IsDue(uint64_t rejected, absl::Time now) const;
  // The connections have been looked at.
  void Looked(uint64_t rejected, absl::Time began, absl::Time ended);
  // Whether the connection must end.
  bool AreTooMany(const StreamCounts& counts, bool stranger) const;

 private:
  const Limits limits_;
  uint64_t rejected_ = 0;  // until the last look
  absl::Time look_at_ = absl::InfinitePast();
};

}  // namespace dp::server

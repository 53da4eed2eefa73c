#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/connections/stream_counts.h"

namespace dp::server {

// Finds connections whose other side begins calls, such as those that it resets at once, and goes
// on although the gate rejects them. Such a call takes its sender 30 bytes. Its headers take the
// coordinator far more time.
//
// Only gRPC knows which connection a rejected call has come on. To ask it takes time for each
// connection (CountStreams), so it is asked when many calls were rejected, and never for long.
//
// A connection that somebody has proven to be theirs may last for days. The calls that it abandoned
// before the first look of a series do not count. Pure: time is an argument. Not thread-safe.
class AbandonedCalls {
 public:
  struct Limits {
    // A connection may begin so many calls whose messages never come: as many as a person may begin
    // at once by default. A stranger has few calls to make.
    uint64_t of_connection = 2'000;
    uint64_t of_stranger = 100;
    // The connections are looked at after so many rejected calls.
    uint64_t rejected = 1'000;
  };
  // How often a look may be due.
  static constexpr absl::Duration kLookEvery = absl::Milliseconds(100);
  // The part of time that looks may take.
  static constexpr double kTimeOfLooks = 0.1;
  // A look that comes no earlier begins a new series.
  static constexpr absl::Duration kSeriesEndsAfter = absl::Minutes(1);

  explicit AbandonedCalls(const Limits& limits) : limits_(limits) {}

  // `rejected`: calls, since the start.
  bool IsDue(uint64_t rejected, absl::Time now) const;
  // Begins a look, which asks for each connection, and ends it.
  void BeginLook(absl::Time now);
  void EndLook(uint64_t rejected, absl::Time now);
  // Whether the connection must end.
  bool AreTooMany(const StreamCounts& counts, bool stranger);

 private:
  const Limits limits_;
  uint64_t rejected_ = 0;  // until the last look
  absl::Time begun_at_ = absl::InfinitePast();
  absl::Time ended_at_ = absl::InfinitePast();
  bool first_of_series_ = false;
  absl::flat_hash_map<std::string, uint64_t> before_series_;  // calls, by the connection's end
};

}  // namespace dp::server

#pragma once

#include <algorithm>

#include "absl/time/time.h"

// Bounds of calls that wait at the coordinator. Each call asks for an answer within kLongPoll; then
// the client calls again.

namespace dp::client {

// Short enough for a half-open connection to be noticed, long enough to cost nothing.
inline constexpr absl::Duration kLongPoll = absl::Seconds(10);
// How much longer an answer may take than the coordinator holds the call: it may then be in flight,
// from a busy coordinator.
inline constexpr absl::Duration kAnswerSlack = absl::Seconds(5);
// How long a client that has had no answer yet waits for the first one, even if its caller allows
// less.
inline constexpr absl::Duration kFirstAnswer = absl::Seconds(1);

// The deadline of a long poll. It is at most `left`, the caller's remaining time; but a client that
// has not `heard` an answer yet waits at least kFirstAnswer.
inline absl::Duration LongPollDeadline(absl::Duration poll, absl::Duration left, bool heard) {
  return std::min(poll + kAnswerSlack, heard ? left : std::max(left, kFirstAnswer));
}

}  // namespace dp::client

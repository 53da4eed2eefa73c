#pragma once

#include <algorithm>

#include "absl/time/time.h"

// How a call that waits at the coordinator is bounded: it asks for an answer within kLongPoll at
// the latest, and asks again.

namespace dp::client {

// Short enough for a half-open connection to be noticed, long enough to cost nothing.
inline constexpr absl::Duration kLongPoll = absl::Seconds(10);
// What an answer may take beyond the time that the coordinator holds the call: it may be on its way
// when that passes, from a coordinator that is busy.
inline constexpr absl::Duration kAnswerSlack = absl::Seconds(5);
// What who has heard nothing yet waits for the first answer, however little time they give it.
inline constexpr absl::Duration kFirstAnswer = absl::Seconds(1);

// The deadline of such a call whose caller gives up in `left`: never beyond that, unless nothing
// has been `heard` yet.
inline absl::Duration LongPollDeadline(absl::Duration poll, absl::Duration left, bool heard) {
  return std::min(poll + kAnswerSlack, heard ? left : std::max(left, kFirstAnswer));
}

}  // namespace dp::client

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/backoff.h"

namespace dp::client {

struct RetryOptions {
  absl::Duration deadline = absl::Seconds(30);  // of all attempts together
  absl::Duration attempt = absl::Seconds(5);    // of one attempt
  // False if DeadlineExceeded is the answer itself, as for a wait with a timeout.
  bool retry_deadline_exceeded = true;
  // Whether to retry the same request after Aborted (lost a race). True if each attempt reads anew
  // the data that it lost the race about.
  bool retry_aborted = false;
  BackoffOptions backoff = {.initial = absl::Milliseconds(50), .max = absl::Seconds(1)};
};

// The same error, of a coordinator that has named a time before which a retry is useless.
absl::Status RetryNotBefore(absl::Duration pause, absl::Status status);

// Whether the error is such a one: the caller makes more calls than its rate allows.
bool IsRateLimited(const absl::Status& status);

// Decides whether a failed RPC is worth another attempt, and when. Pure: callers pass the time in,
// and the same seed gives the same decisions, so a simulator uses the policy unchanged. One object
// per request; not thread-safe.
class RetryPolicy {
 public:
  RetryPolicy(const RetryOptions& options, uint64_t seed);

  // The pause before the next attempt, `elapsed` after the first one began; none: give up. Where
  // RetryNotBefore names a time, the pause is longer by the backoff: many callers hear the same
  // time. It leaves the last attempt some of the deadline. A time beyond the deadline ends the
  // attempts at once.
  std::optional<absl::Duration> Next(const absl::Status& status, absl::Duration elapsed);

  // The status to return once Next has given up. It is `status` itself if a retry cannot help.
  // Otherwise it has the code and message of `status`, with the time and number of attempts. An
  // attempt that had no time left gives no reason, so an earlier reason why nobody was reached
  // stays. The first reason stays, too: a coordinator that stops says why, and is gone at the next
  // attempt. Payloads stay as well, such as a mark of absence (absence.h).
  absl::Status GiveUp(const absl::Status& status, absl::Duration elapsed) const;

  // The deadline of an attempt that begins `elapsed` after the first one.
  absl::Duration AttemptDeadline(absl::Duration elapsed) const;

 private:
  bool Retryable(absl::StatusCode code) const;

  const RetryOptions options_;
  Backoff backoff_;
  int failures_ = 0;
  std::string first_words_;   // of the first Unavailable
  absl::Status unreachable_;  // the latest Unavailable; OK: none yet
};

}  // namespace dp::client

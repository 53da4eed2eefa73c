#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/backoff.h"

namespace dp::client {

struct RetryOptions {
  absl::Duration deadline = absl::Seconds(30);  // over all attempts
  absl::Duration attempt = absl::Seconds(5);    // of one attempt
  // Off where DeadlineExceeded is the answer itself, as for a wait with a time limit.
  bool retry_deadline_exceeded = true;
  // Whether Aborted (lost a race) is worth another attempt of the same request. It is where the
  // attempt reads afresh what it lost the race about.
  bool retry_aborted = false;
  BackoffOptions backoff = {.initial = absl::Milliseconds(50), .max = absl::Seconds(1)};
};

// Decides whether an RPC that failed is worth another attempt, and when. Pure: time is told to it,
// the same seed decides the same, so a simulator uses it as it is. One object a request; not
// thread-safe.
class RetryPolicy {
 public:
  RetryPolicy(const RetryOptions& options, uint64_t seed);

  // The pause before the next attempt, `elapsed` after the first one began; none: give up.
  std::optional<absl::Duration> Next(const absl::Status& status, absl::Duration elapsed);

  // The status to hand out once Next has said none: `status` itself where retrying cannot help, and
  // otherwise its code and words, with how long and how often was tried. An attempt for which there
  // was no time left says nothing: where one before it said why nobody was reached, that stands.
  // So do its first words: a coordinator that stops says why, and is gone at the next attempt.
  absl::Status GiveUp(const absl::Status& status, absl::Duration elapsed) const;

  // The deadline for an attempt that begins `elapsed` after the first one.
  absl::Duration AttemptDeadline(absl::Duration elapsed) const;

 private:
  bool Retryable(absl::StatusCode code) const;

  const RetryOptions options_;
  Backoff backoff_;
  int failures_ = 0;
  std::string first_words_;   // of what became unreachable_ first
  absl::Status unreachable_;  // the latest answer that nobody was reached; ok: none yet
};

}  // namespace dp::client

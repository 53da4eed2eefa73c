#pragma once

#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "client/pause.h"
#include "client/retry_policy.h"

namespace dp::client {

// The status of an absl::Status or absl::StatusOr.
template <typename Result>
absl::Status StatusOf(const Result& result) {
  if constexpr (requires { result.status(); }) {
    return result.status();
  } else {
    return result;
  }
}

// Repeats `attempt` until it succeeds or `policy` gives up; the last error then says so. `attempt`
// takes the deadline of one attempt and returns absl::Status or absl::StatusOr; it must be safe to
// repeat. `sleep` waits. It returns false if a shutdown ended the wait, which ends the loop with
// Cancelled.
//
//   RetryLoop(RetryPolicy({}, EntropySeed()), Clock::System(), pause, [&](absl::Duration in) {
//     return connection.Call(&v1::Jobs::Stub::Submit, request, in);
//   });
template <typename Attempt>
auto RetryLoop(RetryPolicy policy, const Clock& clock,
               absl::FunctionRef<bool(absl::Duration)> sleep, Attempt attempt)
    -> decltype(attempt(absl::Duration())) {
  const absl::Time begin = clock.Now();
  while (true) {
    auto result = attempt(policy.AttemptDeadline(clock.Now() - begin));
    if (result.ok()) return result;
    const absl::Status status = StatusOf(result);
    const absl::Duration elapsed = clock.Now() - begin;
    const std::optional<absl::Duration> wait = policy.Next(status, elapsed);
    if (!wait) return policy.GiveUp(status, elapsed);
    if (!sleep(*wait)) return absl::CancelledError("shut down while waiting to retry");
  }
}

template <typename Attempt>
auto RetryLoop(RetryPolicy policy, const Clock& clock, Pause& pause, Attempt attempt) {
  return RetryLoop(
      std::move(policy), clock, [&pause](absl::Duration wait) { return pause.For(wait); },
      std::move(attempt));
}

}  // namespace dp::client

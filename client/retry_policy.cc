#include "client/retry_policy.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/duration_text.h"

namespace dp::client {
namespace {

// Every attempt gets at least this, so that the last one can succeed at all.
constexpr absl::Duration kAttemptMin = absl::Milliseconds(1);

// The last attempt after a pause that the coordinator asked for gets at least this, where it can: a
// call from a busy host.
constexpr absl::Duration kLastAttempt = absl::Milliseconds(250);

// The payload of RetryNotBefore: a duration as text.
constexpr char kNotBefore[] = "dp/retry-not-before";

absl::Duration NotBefore(const absl::Status& status) {
  const auto payload = status.GetPayload(kNotBefore);
  absl::Duration pause;
  const bool given = payload && absl::ParseDuration(std::string(*payload), &pause);
  return given ? pause : absl::ZeroDuration();
}

// Why there is no other attempt although time is `left`; empty: none is.
std::string WhyNoOther(const absl::Status& status, absl::Duration left) {
  if (!IsRateLimited(status) || left <= absl::ZeroDuration()) return "";
  return absl::StrCat("; ", DurationText(absl::Ceil(left, absl::Milliseconds(1))),
                      " is left, too short for another");
}

}  // namespace

bool IsRateLimited(const absl::Status& status) { return status.GetPayload(kNotBefore).has_value(); }

absl::Status RetryNotBefore(absl::Duration pause, absl::Status status) {
  status.SetPayload(kNotBefore, absl::Cord(absl::FormatDuration(pause)));
  return status;
}

RetryPolicy::RetryPolicy(const RetryOptions& options, uint64_t seed)
    : options_(options), backoff_(options.backoff, seed) {}

std::optional<absl::Duration> RetryPolicy::Next(const absl::Status& status,
                                                absl::Duration elapsed) {
  ++failures_;
  if (absl::IsUnavailable(status)) {
    // Each rejection for the rate names another time, and says nothing else.
    if (unreachable_.ok() && !IsRateLimited(status)) first_words_ = std::string(status.message());
    unreachable_ = status;
  }
  if (!Retryable(status.code())) return std::nullopt;
  const absl::Duration left = options_.deadline - elapsed;
  if (left <= absl::ZeroDuration()) return std::nullopt;
  if (!IsRateLimited(status)) return std::min(backoff_.Next(), left);
  const absl::Duration not_before = NotBefore(status);
  if (not_before >= left) return std::nullopt;
  const absl::Duration latest = std::max(not_before, left - kLastAttempt);
  return std::min(not_before + backoff_.Next(), latest);
}

absl::Status RetryPolicy::GiveUp(const absl::Status& status, absl::Duration elapsed) const {
  if (!Retryable(status.code())) return status;
  const bool timed_out = absl::IsDeadlineExceeded(status) && !unreachable_.ok();
  const absl::Status& cause = timed_out ? unreachable_ : status;
  const bool told_more = !first_words_.empty() && first_words_ != cause.message();
  absl::Status given_up(
      cause.code(),
      absl::StrCat(cause.message(), " (", told_more ? "at first: " : "",
                   told_more ? first_words_ : "", told_more ? "; " : "", "gave up after ",
                   failures_, failures_ == 1 ? " attempt" : " attempts", " in ",
                   DurationText(absl::Trunc(elapsed, absl::Milliseconds(100))),
                   WhyNoOther(status, options_.deadline - elapsed), ")"));
  cause.ForEachPayload([&given_up](absl::string_view type, const absl::Cord& payload) {
    given_up.SetPayload(type, payload);
  });
  return given_up;
}

absl::Duration RetryPolicy::AttemptDeadline(absl::Duration elapsed) const {
  return std::clamp(options_.deadline - elapsed, kAttemptMin,
                    std::max(options_.attempt, kAttemptMin));
}

bool RetryPolicy::Retryable(absl::StatusCode code) const {
  switch (code) {
    case absl::StatusCode::kUnavailable:
      return true;
    case absl::StatusCode::kDeadlineExceeded:
      return options_.retry_deadline_exceeded;
    case absl::StatusCode::kAborted:
      return options_.retry_aborted;
    default:
      return false;
  }
}

}  // namespace dp::client

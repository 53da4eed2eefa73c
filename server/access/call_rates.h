#pragma once

#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dp::server {

// How fast each caller may make calls. A caller that rests saves up `saved_up`'s worth of calls,
// and may make them at once. Callers do not slow each other down.
//
// A caller that has saved up all it can need not be remembered, so only callers of the last moments
// are. Pure: time is an argument, and never goes back. Not thread-safe.
class CallRates {
 public:
  // The default; long enough for what a caller does when it starts, such as the reports of a
  // thousand ranks.
  static constexpr absl::Duration kSavedUp = absl::Seconds(10);
  // More than a large cluster has ranks and workers; each takes about 100 bytes.
  static constexpr size_t kCallersMax = 65'536;

  explicit CallRates(size_t callers_max = kCallersMax, absl::Duration saved_up = kSavedUp)
      : callers_max_(callers_max), saved_up_(saved_up) {}

  // Counts a call, and returns zero; or returns how long the caller must wait for its next call,
  // and counts nothing. Callers beyond the bound share one rate. Precondition: per_second > 0, and
  // the same for each call of one caller.
  absl::Duration Take(absl::string_view caller, double per_second, absl::Time now);

  // Takes back a call that was counted.
  void GiveBack(absl::string_view caller, double per_second);

  // Remembered callers, at most twice the bound.
  size_t callers() const { return recent_.size() + earlier_.size(); }

 private:
  // The time at which each caller will have saved up all it can.
  using Callers = absl::flat_hash_map<std::string, absl::Time>;

  absl::Time& FullAt(absl::string_view caller, absl::Time now);
  void ForgetRested(absl::Time now);

  const size_t callers_max_;
  const absl::Duration saved_up_;
  Callers recent_;
  Callers earlier_;  // have made no call since renewed_at_
  absl::Time renewed_at_ = absl::InfinitePast();
  absl::Time others_full_at_ = absl::InfinitePast();
};

}  // namespace dp::server

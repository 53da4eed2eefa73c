#include "server/access/call_rates.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace dp::server {

absl::Duration CallRates::Take(absl::string_view caller, double per_second, absl::Time now) {
  DP_CHECK(per_second > 0);
  ForgetRested(now);
  absl::Time& full_at = FullAt(caller, now);
  const absl::Time after = std::max(full_at, now) + absl::Seconds(1 / per_second);
  if (after - now > saved_up_) return after - now - saved_up_;
  full_at = after;
  return absl::ZeroDuration();
}

void CallRates::GiveBack(absl::string_view caller, double per_second) {
  const absl::Duration call = absl::Seconds(1 / per_second);
  for (Callers* callers : {&recent_, &earlier_}) {
    const auto known = callers->find(caller);
    if (known == callers->end()) continue;
    known->second -= call;
    return;
  }
  if (recent_.size() >= callers_max_) others_full_at_ -= call;
}

absl::Time& CallRates::FullAt(absl::string_view caller, absl::Time now) {
  if (const auto it = recent_.find(caller); it != recent_.end()) return it->second;
  if (recent_.size() >= callers_max_) return others_full_at_;
  const auto before = earlier_.find(caller);
  const absl::Time full_at = before != earlier_.end() ? before->second : now;
  return recent_.emplace(caller, full_at).first->second;
}

// Whoever has made no call for saved_up_ has saved up all it can.
void CallRates::ForgetRested(absl::Time now) {
  if (now - renewed_at_ < saved_up_) return;
  const bool all_rested = now - renewed_at_ >= 2 * saved_up_;
  earlier_ = all_rested ? Callers() : std::move(recent_);
  recent_ = Callers();
  renewed_at_ = now;
}

}  // namespace dp::server

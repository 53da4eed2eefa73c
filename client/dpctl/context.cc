#include "client/dpctl/context.h"

#include <algorithm>

#include "client/absence.h"

namespace dp::ctl {

client::Connection& Context::coordinator() {
  if (connection_ == nullptr)
    connection_ = surroundings_.connect(flags_.coordinator, flags_.credentials);
  return *connection_;
}

absl::Duration Context::Within(absl::Duration duration) const {
  if (until_ == absl::InfiniteFuture()) return duration;
  return std::min(duration, std::max(until_ - surroundings_.clock.Now(), absl::ZeroDuration()));
}

absl::Status Context::WhyRefused(const absl::Status& status) {
  absl::Status why = LookIntoRefusal(status);
  refused_ = !why.ok() || absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) ||
             (!status.ok() && connection_ != nullptr && !connection_->credentials_status().ok());
  return why;
}

absl::Status Context::LookIntoRefusal(const absl::Status& status) {
  // A coordinator that does not answer in time refuses nobody.
  if (let_in_ || absl::IsCancelled(status) || absl::IsDeadlineExceeded(status))
    return absl::OkStatus();
  if (client::AbsenceIn(status) != client::Absence::kNone || client::IsRateLimited(status))
    return absl::OkStatus();
  let_in_ = true;
  return absl::IsUnavailable(status)
             ? surroundings_.why_refused(flags_.coordinator, flags_.credentials)
             : absl::OkStatus();
}

void Context::RenewLogin() {
  if (connection_ == nullptr) return;
  out().flush();  // its reader need not wait for the renewal
  surroundings_.logins.renew(*connection_, flags_.coordinator, flags_.credentials);
}

void Context::Interrupt() {
  pause_->Stop();
  connection_->CancelAll();
}

void Context::Reconnect() {
  connection_.reset();
  pause_ = std::make_unique<client::Pause>();
}

}  // namespace dp::ctl

#include "client/dpctl/context.h"

#include <algorithm>

namespace dp::ctl {

Services& Context::coordinator() {
  if (services_ == nullptr) services_ = surroundings_.connect(flags_.coordinator);
  return *services_;
}

absl::Duration Context::Within(absl::Duration duration) const {
  if (until_ == absl::InfiniteFuture()) return duration;
  return std::min(duration, std::max(until_ - surroundings_.clock.Now(), absl::ZeroDuration()));
}

void Context::Interrupt() {
  pause_->Stop();
  services_->CancelAll();
}

void Context::Reconnect() {
  services_.reset();
  pause_ = std::make_unique<client::Pause>();
}

}  // namespace dp::ctl

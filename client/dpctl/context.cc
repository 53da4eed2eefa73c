#include "client/dpctl/context.h"

namespace dp::ctl {

Services& Context::coordinator() {
  if (services_ == nullptr) services_ = surroundings_.connect(flags_.coordinator);
  return *services_;
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

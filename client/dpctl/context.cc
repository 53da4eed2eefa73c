#include "client/dpctl/context.h"

namespace dp::ctl {

Coordinator& Context::coordinator() {
  if (coordinator_ == nullptr) coordinator_ = world_.connect(flags_.coordinator);
  return *coordinator_;
}

void Context::Interrupt() {
  pause_->Stop();
  coordinator_->CancelAll();
}

void Context::Reconnect() {
  coordinator_.reset();
  pause_ = std::make_unique<client::Pause>();
}

}  // namespace dp::ctl

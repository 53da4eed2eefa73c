#pragma once

#include <memory>

#include "base/mutex.h"
#include "grpcpp/grpcpp.h"
#include "server/parameters/parameters.h"

namespace dp::server {

// Ends a stream whose client sends or takes nothing for Parameters::kStalled, so that it cannot
// hold memory for ever. The call owns it, and ends its waits. Thread-safe.
class StreamProgress {
 public:
  StreamProgress(CallTimers& timers, grpc::CallbackServerContext& context)
      : timers_(timers), context_(context) {}

  // A message is in flight; `call` owns this, and lives until the message has come or time is over.
  void Await(std::shared_ptr<void> call) {
    timer_ = timers_.After(Parameters::kStalled, [this, call = std::move(call)] { GiveUp(); });
  }
  // The message has come, or the stream has ended.
  void Came() { timers_.Cancel(timer_); }
  // gRPC is done with the call: its context goes away.
  void Done() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    done_ = true;
  }

 private:
  // Under the lock, because the context may go away otherwise. TryCancel never blocks.
  void GiveUp() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (!done_) context_.TryCancel();
  }

  CallTimers& timers_;
  grpc::CallbackServerContext& context_;
  CallTimers::Id timer_ = 0;
  Mutex mu_;
  bool done_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::server

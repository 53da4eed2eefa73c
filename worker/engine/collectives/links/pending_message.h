#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/message.h"

namespace dp::engine {

// A message between its call and its end. Shared by the caller's Work and the thread of the links.
// Thread-safe, but for the deadline, which only that thread uses.
class PendingMessage {
 public:
  PendingMessage(Message message, absl::Duration timeout)
      : message_(std::move(message)),
        name_(NameOf(message_)),
        timeout_(timeout),
        begun_(Clock::Steady().Now()),
        counted_from_(begun_) {}
  virtual ~PendingMessage() = default;

  const Message& message() const { return message_; }
  const std::string& name() const { return name_; }
  absl::Duration timeout() const { return timeout_; }
  absl::Time called() const { return begun_; }
  // The time limit counts from the call, unless a carrier says otherwise.
  absl::Time deadline() const { return counted_from_ + timeout_; }
  void CountFrom(absl::Time time) { counted_from_ = time; }

  // Nobody touches the message's memory any more. Only the first call counts.
  virtual void End(const absl::Status& status) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (done_) return;
    done_ = true;
    status_ = status;
    ended_ = Clock::Steady().Now();
    changed_.NotifyAll();
  }
  absl::Status Wait() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!done_) changed_.Wait(mu_);
    return status_;
  }
  bool done() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return done_;
  }
  WorkTimes times() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return {begun_, ended_};
  }

 private:
  const Message message_;
  const std::string name_;
  const absl::Duration timeout_;
  const absl::Time begun_;
  absl::Time counted_from_;
  mutable Mutex mu_;
  CondVar changed_;
  bool done_ DP_GUARDED_BY(mu_) = false;
  absl::Status status_ DP_GUARDED_BY(mu_);
  absl::Time ended_ DP_GUARDED_BY(mu_) = absl::InfiniteFuture();
};

class MessageWork final : public Work {
 public:
  explicit MessageWork(std::shared_ptr<PendingMessage> message) : message_(std::move(message)) {}

  absl::Status Wait() override { return message_->Wait(); }
  bool done() const override { return message_->done(); }
  WorkTimes times() const override { return message_->times(); }

 private:
  const std::shared_ptr<PendingMessage> message_;
};

}  // namespace dp::engine

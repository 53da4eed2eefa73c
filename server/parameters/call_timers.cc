#include "server/parameters/call_timers.h"

#include <pthread.h>

namespace dp::server {

CallTimers::CallTimers(const Clock& clock) : clock_(clock), thread_([this] { Run(); }) {}

CallTimers::~CallTimers() {
  MutexLock lock(mu_);
  stopped_ = true;
  changed_.NotifyAll();
}

CallTimers::Id CallTimers::After(absl::Duration wait, std::function<void()> then) {
  MutexLock lock(mu_);
  const absl::Time at = clock_.Now() + wait;
  at_.emplace(++last_, at);
  due_.emplace(At{at, last_}, std::move(then));
  // Most timers lie behind others, and are cancelled before they are due.
  if (due_.begin()->first.second == last_) changed_.NotifyAll();
  return last_;
}

void CallTimers::Cancel(Id id) {
  std::function<void()> dropped;  // destroyed without the lock: it may own a call
  MutexLock lock(mu_);
  const auto at = at_.find(id);
  if (at == at_.end()) return;
  const auto due = due_.find({at->second, id});
  dropped = std::move(due->second);
  due_.erase(due);
  at_.erase(at);
}

void CallTimers::Run() {
  pthread_setname_np(pthread_self(), "dp-timers");
  while (true) {
    std::function<void()> then;
    {
      MutexLock lock(mu_);
      if (stopped_) return;
      const absl::Duration wait =
          due_.empty() ? absl::InfiniteDuration() : due_.begin()->first.first - clock_.Now();
      if (wait > absl::ZeroDuration()) {
        changed_.WaitFor(mu_, wait);
        continue;
      }
      then = std::move(due_.begin()->second);
      at_.erase(due_.begin()->first.second);
      due_.erase(due_.begin());
    }
    then();
  }
}

}  // namespace dp::server

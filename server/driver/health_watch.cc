#include "server/driver/health_watch.h"

#include <pthread.h>

#include <utility>

#include "base/program/log.h"

namespace dp::server {

HealthWatch::HealthWatch(const Options& options, Ask ask, LogsAreStored logs_are_stored, Tell tell)
    : options_(options),
      ask_(std::move(ask)),
      logs_are_stored_(std::move(logs_are_stored)),
      tell_(std::move(tell)),
      answers_(std::make_shared<BoundedQueue<Answer>>(1)),
      thread_([this] { Run(); }) {}

HealthWatch::~HealthWatch() { answers_->Close(); }

void HealthWatch::Run() {
  pthread_setname_np(pthread_self(), "dp-health");
  Health health;
  int missed = 0;
  while (!answers_->closed()) {
    missed = Answered() ? 0 : missed + 1;
    const Health now{missed < options_.missed_max, logs_are_stored_()};
    if (answers_->closed() || now == health) continue;
    if (now.driver != health.driver) {
      Log(now.driver ? Severity::kInfo : Severity::kError,
          now.driver ? "driver_answers" : "driver_silent");
    }
    health = now;
    tell_(health);
  }
}

bool HealthWatch::Answered() {
  if (!asked_) {
    asked_ = ask_([answers = answers_] {
      Answer answer;
      (void)answers->TryPush(answer);  // closed: nobody asks any more
    });
  }
  if (answers_->DrainFor(options_.interval).empty()) return false;
  asked_ = false;
  (void)answers_->DrainFor(options_.interval);  // a pause; nothing arrives unasked
  return true;
}

}  // namespace dp::server

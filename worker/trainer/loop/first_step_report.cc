#include "worker/trainer/loop/first_step_report.h"

#include <pthread.h>

#include "base/random.h"
#include "client/long_poll.h"
#include "client/retry_loop.h"
#include "dp/v1/worlds.grpc.pb.h"

namespace dp::trainer {

FirstStepReport::FirstStepReport(client::Connection& connection, const Environment& environment,
                                 const Clock& clock)
    : connection_(connection), environment_(environment), clock_(clock), thread_([this] {
        pthread_setname_np(pthread_self(), "first-step");
        Run();
      }) {}

FirstStepReport::~FirstStepReport() {
  pause_.Stop();
  MutexLock lock(mu_);
  stopped_ = true;
  changed_.NotifyAll();
}

void FirstStepReport::Done() {
  MutexLock lock(mu_);
  if (done_) return;
  done_ = true;
  changed_.NotifyAll();
}

bool FirstStepReport::AwaitTold(absl::Duration within) {
  MutexLock lock(mu_);
  if (!done_) return true;
  return changed_.WaitFor(mu_, within, [this]() DP_REQUIRES(mu_) { return told_; });
}

bool FirstStepReport::AwaitDone() {
  MutexLock lock(mu_);
  while (!done_ && !stopped_) changed_.Wait(mu_);
  return !stopped_;
}

void FirstStepReport::Run() {
  if (!AwaitDone()) return;
  v1::CompleteFirstStepRequest request;
  request.set_job(environment_.job.value());
  request.set_generation(environment_.generation.value());
  request.set_rank(environment_.rank);
  const auto attempt = [&](absl::Duration in) {
    return connection_.Call(&v1::Worlds::Stub::CompleteFirstStep, request, in);
  };
  // A report is rejected if its generation is over; there is nothing to do then.
  (void)client::RetryLoop(
      client::RetryPolicy({.deadline = absl::Hours(24), .attempt = client::kAnswerSlack},
                          EntropySeed()),
      clock_, pause_, attempt);
  MutexLock lock(mu_);
  told_ = true;
  changed_.NotifyAll();
}

}  // namespace dp::trainer

#pragma once

#include <vector>

#include "absl/time/time.h"
#include "server/core/command.h"

// Whether a job whose generation has failed gets another one. Pure and outside Apply: its verdicts
// are RetryJob and FinishJob commands, so a better policy never changes what a journal says.
// docs/failures.md tells its rules.

namespace dp::core {

class Coordinator;
struct Job;

// A generation that ran for so long, or has left a checkpoint, is no sign that the next one will
// fail at once.
inline constexpr absl::Duration kCalmAfter = absl::Seconds(10);
// Between short-lived generations: none before the first restart, then this, doubled with each.
inline constexpr absl::Duration kBackOff = absl::Seconds(1);
inline constexpr absl::Duration kBackOffMax = absl::Minutes(1);

// The verdict on one job. Precondition: job.awaits_verdict() and may_retry().
Action DecideRetry(const Job& job, absl::Time now);

// The verdicts that are due, oldest job first.
std::vector<Action> PlanRetries(const Coordinator& coordinator, absl::Time now);

// What is left of a budget.
struct RestartBudget {
  FailureClass failure_class = FailureClass::kUser;
  int used = 0;  // within the window, where there is one
  int limit = 0;
  absl::Duration window = absl::InfiniteDuration();  // infinite: the job's whole life
};

// Those of a job that can be restarted: user, infra, hang, and oom where it has one.
std::vector<RestartBudget> BudgetsOf(const Job& job, absl::Time now);

}  // namespace dp::core

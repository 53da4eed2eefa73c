#pragma once

#include <vector>

#include "absl/time/time.h"
#include "server/core/command.h"

// Decides whether a job whose generation has failed gets another one. Pure and outside Apply: the
// verdicts are RetryJob and FinishJob commands, so a better policy never changes what a journal
// means. docs/failures.md has the rules.

namespace dp::core {

class Coordinator;
struct Job;

// A generation that ran for this long, or has left a checkpoint, does not count as short-lived.
inline constexpr absl::Duration kCalmAfter = absl::Seconds(10);
// The delay after short-lived generations: none before the first restart, then this, doubled each
// time.
inline constexpr absl::Duration kBackOff = absl::Seconds(1);
inline constexpr absl::Duration kBackOffMax = absl::Minutes(1);

// The verdict on one job. Precondition: job.awaits_verdict() and may_retry().
Action DecideRetry(const Job& job, absl::Time now);

// The verdicts that are due, oldest job first.
std::vector<Action> PlanRetries(const Coordinator& coordinator, absl::Time now);

// A restart budget, and how much of it is used.
struct RestartBudget {
  FailureClass failure_class = FailureClass::kUser;
  int used = 0;  // within `window`
  int limit = 0;
  absl::Duration window = absl::InfiniteDuration();  // infinite: the whole job
};

// The budgets of a job with restarts: user, infra, hang, and oom if it has one.
std::vector<RestartBudget> BudgetsOf(const Job& job, absl::Time now);

}  // namespace dp::core

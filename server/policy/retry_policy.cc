#include "server/policy/retry_policy.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "server/core/coordinator.h"
#include "server/core/job.h"

namespace dp::core {
namespace {

// Signal N counts as exit code 128 + N, as in shells and dpctl.
constexpr int kSignalBase = 128;

std::optional<int> CodeOf(const Failure& failure) {
  if (!failure.exit.has_value()) return std::nullopt;
  const bool signal = failure.exit->how == Exit::How::kSignal;
  return failure.exit->number + (signal ? kSignalBase : 0);
}

bool Contains(const std::vector<int>& codes, std::optional<int> code) {
  return code.has_value() && std::find(codes.begin(), codes.end(), *code) != codes.end();
}

// The budget that pays for a restart after this failure; none if the restart is free.
std::optional<FailureClass> PayerOf(const Failure& failure, const RestartLimits& limits) {
  switch (failure.failure_class) {
    case FailureClass::kUser:
    case FailureClass::kStartup:
      return FailureClass::kUser;
    case FailureClass::kOom:
      return limits.oom.has_value() ? FailureClass::kOom : FailureClass::kUser;
    case FailureClass::kInfra:
    case FailureClass::kHang:
      return failure.failure_class;
    case FailureClass::kPreempt:
    case FailureClass::kCancel:
    case FailureClass::kTimeout:
      break;
  }
  return std::nullopt;
}

RestartBudget BudgetOf(const Job& job, FailureClass payer, absl::Time now) {
  const RestartLimits& limits = *job.spec.restart;
  RestartBudget budget{.failure_class = payer, .window = limits.window};
  switch (payer) {
    case FailureClass::kInfra:
      budget.limit = limits.infra;
      break;
    case FailureClass::kHang:
      budget.limit = limits.hang;
      break;
    case FailureClass::kOom:
      budget.limit = limits.oom.value_or(0);
      break;
    default:
      budget.limit = limits.user;
      budget.window = absl::InfiniteDuration();
  }
  if (const auto paid = job.restarts.find(payer); paid != job.restarts.end()) {
    budget.used =
        static_cast<int>(std::count_if(paid->second.begin(), paid->second.end(),
                                       [&](absl::Time at) { return now - at < budget.window; }));
  }
  return budget;
}

// The budget's field in the job file.
absl::string_view FieldOf(FailureClass payer) {
  switch (payer) {
    case FailureClass::kInfra:
      return "restart.infra";
    case FailureClass::kHang:
      return "restart.hang";
    case FailureClass::kOom:
      return "restart.oom";
    default:
      return "restart.maxRestarts";
  }
}

std::string UsedUp(const RestartBudget& budget) {
  const absl::string_view field = FieldOf(budget.failure_class);
  if (budget.limit == 0) return absl::StrCat(field, " is 0");
  const std::string within = budget.window == absl::InfiniteDuration()
                                 ? ""
                                 : absl::StrCat(" within ", absl::FormatDuration(budget.window));
  return absl::StrCat(field, ": ", budget.used, " of ", budget.limit, " restarts are used up",
                      within);
}

// How many generations in a row, the last one included, have ended in such a way.
template <typename Such>
int InARow(const Job& job, Such such) {
  if (!such(*job.failure)) return 0;
  const auto other = std::find_if(job.past.rbegin(), job.past.rend(),
                                  [&](const PastFailure& past) { return !such(past.failure); });
  return 1 + static_cast<int>(other - job.past.rbegin());
}

bool HasCheckpointOf(const Job& job, Generation generation) {
  const auto& all = job.checkpoints.all();
  return std::any_of(all.begin(), all.end(),
                     [&](const Checkpoint& one) { return one.generation == generation; });
}

// The report of the first step may have been lost with its rank, so a checkpoint counts as well.
bool NeverStepped(const Job& job, const Failure& failure) {
  if (failure.failure_class == FailureClass::kPreempt) return false;
  if (!failure.running_at.has_value()) return true;
  return failure.before_first_step && !HasCheckpointOf(job, failure.generation);
}

std::string NeverStartedText(const Job& job, int in_a_row) {
  return absl::StrCat("restart.startup is ", job.spec.restart->startup, ", and ", in_a_row,
                      in_a_row == 1 ? " generation has" : " generations in a row have",
                      job.failure->before_first_step && job.failure->running_at.has_value()
                          ? " ended before the first step was done"
                          : " ended before all ranks were there");
}

bool ShortLived(const Job& job, const Failure& failure) {
  if (failure.failure_class == FailureClass::kPreempt) return false;
  const bool long_enough =
      failure.running_at.has_value() && failure.at - *failure.running_at >= kCalmAfter;
  return !long_enough && !HasCheckpointOf(job, failure.generation);
}

absl::Duration BackOffBefore(const Job& job) {
  const int in_a_row =
      InARow(job, [&](const Failure& failure) { return ShortLived(job, failure); });
  if (in_a_row <= 1) return absl::ZeroDuration();
  absl::Duration delay = kBackOff;
  for (int i = 2; i < in_a_row && delay < kBackOffMax; ++i) delay *= 2;
  return std::min(delay, kBackOffMax);
}

}  // namespace

Action DecideRetry(const Job& job, absl::Time now) {
  DP_CHECK(job.awaits_verdict() && job.may_retry());
  const RestartLimits& limits = *job.spec.restart;
  const Failure& failure = *job.failure;
  const auto finish = [&](std::string reason) {
    return FinishJob{job.id, job.generation, std::move(reason)};
  };
  // The exit code of the rank. With kInfra it says nothing about the program.
  const std::optional<int> code =
      failure.failure_class == FailureClass::kInfra ? std::nullopt : CodeOf(failure);
  if (Contains(limits.never_exit_codes, code)) {
    return finish(absl::StrCat("restart.neverRetryExitCodes has ", *code));
  }
  const int in_vain = InARow(job, [&](const Failure& each) { return NeverStepped(job, each); });
  if (in_vain > limits.startup) return finish(NeverStartedText(job, in_vain));
  if (job.time_left <= absl::ZeroDuration()) return finish("its maxDuration is used up");
  RetryJob retry{job.id, job.generation, now + BackOffBefore(job), {}};
  if (Contains(limits.always_exit_codes, code)) return retry;
  retry.counted_as = PayerOf(failure, limits);
  if (!retry.counted_as.has_value()) return retry;
  const RestartBudget budget = BudgetOf(job, *retry.counted_as, now);
  if (budget.used >= budget.limit) return finish(UsedUp(budget));
  return retry;
}

std::vector<Action> PlanRetries(const Coordinator& coordinator, absl::Time now) {
  std::vector<Action> verdicts;
  for (const Job* job : coordinator.unfinished_jobs()) {
    if (job->awaits_verdict()) verdicts.push_back(DecideRetry(*job, now));
  }
  return verdicts;
}

std::vector<RestartBudget> BudgetsOf(const Job& job, absl::Time now) {
  std::vector<RestartBudget> budgets;
  if (!job.spec.restart.has_value()) return budgets;
  for (const FailureClass payer :
       {FailureClass::kUser, FailureClass::kInfra, FailureClass::kHang, FailureClass::kOom}) {
    if (payer == FailureClass::kOom && !job.spec.restart->oom.has_value()) continue;
    budgets.push_back(BudgetOf(job, payer, now));
  }
  return budgets;
}

}  // namespace dp::core

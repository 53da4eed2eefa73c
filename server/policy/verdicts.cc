#include "server/policy/verdicts.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "server/policy/due_jobs.h"
#include "server/policy/handovers.h"
#include "server/policy/retry_policy.h"

namespace dp::core {
namespace {

using Kind = Topic::Kind;

bool Assembles(const Action& action) {
  const auto* report = std::get_if<ReportRank>(&action);
  return std::holds_alternative<JoinWorld>(action) ||
         (report != nullptr && report->what == ReportRank::What::kStarted);
}

bool Concerns(const Topic& topic) {
  return topic.kind == Kind::kJob || topic.kind == Kind::kJobList || topic.kind == Kind::kWorkers ||
         topic.kind == Kind::kAssignment;
}

}  // namespace

Look LookAfter(const Action& action, const Outcome& outcome) {
  if (std::none_of(outcome.changed.begin(), outcome.changed.end(), Concerns)) return Look::kNever;
  // The list of jobs changes with the state of a job, as when its world is sealed.
  const bool moved = std::any_of(outcome.changed.begin(), outcome.changed.end(),
                                 [](const Topic& topic) { return topic.kind == Kind::kJobList; });
  return Assembles(action) && !moved ? Look::kSoon : Look::kAtOnce;
}

Placement ApplyVerdicts(const Coordinator& coordinator, const Liveness& liveness,
                        LateRanks& late_ranks, const PlacementPolicy& policy, absl::Time now,
                        const std::function<void(Action)>& apply) {
  for (GiveUpRank& verdict : late_ranks.Overdue(coordinator, liveness, now)) {
    apply(std::move(verdict));
  }
  const DueJobs due = FindDueJobs(coordinator, now);
  for (const AskHandover& ask : due.ask) apply(ask);
  for (const ExpireJob& expire : due.expire) apply(expire);
  for (const RequeueJob& requeue : due.requeue) apply(requeue);
  for (const ForgetJob& forget : due.forget) apply(forget);
  for (Action& verdict : FindHandovers(coordinator)) apply(std::move(verdict));
  for (Action& verdict : PlanRetries(coordinator, now)) apply(std::move(verdict));
  Placement placement = PlanPlacement(coordinator, policy, now);
  for (PlaceJob& place : placement.place) apply(std::move(place));
  return placement;
}

}  // namespace dp::core

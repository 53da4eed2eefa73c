#include "server/core/verdicts.h"

#include <utility>

#include "server/core/due_jobs.h"
#include "server/core/handovers.h"
#include "server/core/retry_policy.h"

namespace dp::core {

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

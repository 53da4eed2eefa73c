#include "server/policy/reservation.h"

#include <algorithm>
#include <map>

namespace dp::core {

Reservation::Reservation(const SlotSupply& now, const std::vector<RunningJob>& running,
                         const SlotNeed& head, absl::Time time)
    : head_(head), then_(now) {
  std::map<absl::Time, std::vector<const RunningJob*>> by_end;
  for (const RunningJob& job : running) {
    if (job.until < absl::InfiniteFuture()) by_end[std::max(job.until, time)].push_back(&job);
  }
  for (const auto& [end, jobs] : by_end) {
    for (const RunningJob* job : jobs) {
      then_.Give(job->slots);
      then_.Give(job->kept);
    }
    if (!SlotSupply::Fits(head_, then_.CountFor(head_))) continue;
    start_ = end;
    return;
  }
}

bool Reservation::OfNoUse(const SlotSupply::Slots& slots) const {
  return std::none_of(slots.begin(), slots.end(),
                      [this](const PlaceJob::Slot& slot) { return then_.CanUse(head_, slot); });
}

bool Reservation::Spares(const SlotSupply::Slots& slots, absl::Time until) const {
  if (OfNoUse(slots)) return true;
  if (start_ == absl::InfiniteFuture()) return false;
  if (until <= start_) return true;
  SlotSupply rest = then_;
  rest.Take(slots);
  return SlotSupply::Fits(head_, rest.CountFor(head_));
}

void Reservation::Concede(const SlotSupply::Slots& slots, absl::Time until) {
  if (until > start_) then_.Take(slots);
}

}  // namespace dp::core

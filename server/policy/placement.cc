#include "server/policy/placement.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/coordinator.h"
#include "server/policy/placement_input.h"
#include "server/policy/preemption.h"
#include "server/policy/sticky_places.h"

namespace dp::core {
namespace {

// The plan considers this many jobs behind the head; the rest of a longer queue waits.
constexpr int kBackfillMax = 1'000;

// A plan in the making.
class Plan {
 public:
  explicit Plan(const PlacementInput& input)
      : now_(input.now),
        supply_(input.workers),
        running_(input.running),
        ports_(input.ports),
        ledger_(input.limits) {
    for (const RunningJob& job : running_) Note(job);
  }

  void Queue(const std::vector<WaitingJob>& queue) {
    for (const WaitingJob& job : queue) {
      std::vector<PendingReason> reasons = Consider(job);
      if (reasons.empty()) continue;
      if (job.preempted_by.valid()) reasons.push_back(WhyPreempted(job.preempted_by));
      const int position = IsHeld(job) ? 0 : ++positions_;
      placement_.waiting[job.id] = {position, std::move(reasons)};
    }
  }

  // Asks one job at a time: while it restarts, its slots are free for the others.
  void Grow(const std::vector<GrowingJob>& jobs) {
    if (wanted_ || std::any_of(running_.begin(), running_.end(), WillWantSlots)) return;
    for (const GrowingJob& job : jobs) {
      const int more = NodesMore(job);
      if (more == 0) continue;
      if (job.not_before > now_) {
        placement_.again_at = std::min(placement_.again_at, job.not_before);
        continue;
      }
      placement_.leave.push_back({job.id,
                                  HandoverCause::kGrow,
                                  absl::StrCat("it comes back with ", more, " more worker",
                                               more == 1 ? "" : "s", ", which nobody else wants"),
                                  {}});
      return;
    }
  }

  Placement Take() { return std::move(placement_); }

 private:
  static bool IsHeld(const WaitingJob& job) {
    return std::any_of(job.not_its_turn.begin(), job.not_its_turn.end(), [](const auto& reason) {
      return reason.code == PendingReason::Code::kHeld;
    });
  }
  static bool WillWantSlots(const RunningJob& job) { return job.leaving && job.returns; }

  // How many more workers the job would get if it were placed now.
  int NodesMore(const GrowingJob& job) const {
    if (supply_.CountFor(job.need).free_workers == 0) return 0;
    const int each = static_cast<int>(job.need.each());
    SlotNeed need = job.need;
    need.nodes_max =
        std::min(need.nodes_max, job.nodes() + ledger_.Room(job.user, job.queue) / each);
    if (need.nodes_max <= job.nodes()) return 0;
    if (job.store_port && !PortSupply(ports_).Take(job.id).has_value()) return 0;
    SlotSupply supply = supply_;
    supply.Give(job.slots);
    const std::optional<SlotSupply::Slots> slots = supply.Choose(need);
    const int nodes = slots.has_value() ? static_cast<int>(slots->size()) / each : 0;
    return std::max(nodes - job.nodes(), 0);
  }

  struct Outlook {
    bool fits = false;
    bool fits_idle = false;
    std::vector<PendingReason> no_slots;  // unless it fits
  };

  // Places the job, or says why not.
  std::vector<PendingReason> Consider(const WaitingJob& job) {
    std::vector<PendingReason> reasons = job.not_its_turn;
    if (job.not_before > now_) {
      placement_.again_at = std::min(placement_.again_at, job.not_before);
      wanted_ = true;
      reasons.push_back(WhyBackingOff());
    }
    for (PendingReason& reason :
         WhyAboveLimit(ledger_.ReachedBy(job.user, job.queue, job.need.ranks))) {
      reasons.push_back(std::move(reason));
    }
    const bool has_turn = reasons.empty();
    const Outlook outlook = OutlookFor(job.need);
    if (has_turn && outlook.fits) return Start(job);
    reasons.insert(reasons.end(), outlook.no_slots.begin(), outlook.no_slots.end());
    if (!has_turn || !outlook.fits_idle) return reasons;
    wanted_ = true;
    if (head_.has_value()) {
      reasons.push_back(WhyBehind(head_id_));
    } else {
      head_id_ = job.id;
      MakeRoom(job, reasons);
      head_.emplace(supply_, running_, job.need, now_);
    }
    return reasons;
  }

  // Makes the jobs leave that the head may preempt.
  void MakeRoom(const WaitingJob& head, std::vector<PendingReason>& reasons) {
    std::vector<JobId> leaving;
    for (const RunningJob& job : running_) {
      if (job.leaves_for == head.id) leaving.push_back(job.id);
    }
    std::vector<JobId> victims = ChooseVictims(supply_, running_, head.need, head.priority);
    // Without a port the head would not start, and the victims would leave in vain.
    if (head.store_port && !PortSupply(ports_).Take(head.id).has_value()) victims.clear();
    for (const JobId victim : victims) {
      placement_.leave.push_back({victim, HandoverCause::kPreempt,
                                  absl::StrCat("job ", head.id.ToString(), " of priority ",
                                               head.priority, " takes its slots"),
                                  head.id});
      NoteLeaving(victim);
    }
    if (!leaving.empty()) reasons.push_back(WhyAwaitsLeaving(std::move(leaving)));
    if (!victims.empty()) reasons.push_back(WhyPreempts(std::move(victims)));
  }

  // Makes the victim's slots count as free for the head, so that no job goes ahead of it there.
  void NoteLeaving(JobId victim) {
    for (RunningJob& job : running_) {
      if (job.id != victim) continue;
      job.leaving = job.returns = true;
      job.until = now_;
    }
  }

  // Precondition: the job fits.
  std::vector<PendingReason> Start(const WaitingJob& job) {
    const std::optional<SlotSupply::Slots> slots = Choose(job);
    if (!slots.has_value()) return {WhyBehind(head_id_)};
    const std::optional<int> port = job.store_port ? ports_.Take(job.id) : 0;
    if (!port.has_value()) {
      placement_.again_at = std::min(placement_.again_at, ports_.next_at());
      wanted_ = true;
      return {WhyNoPort(ports_)};
    }
    const RunningJob started{job.id, job.user, job.queue, *slots, now_ + job.time_left};
    if (head_.has_value()) head_->Concede(*slots, started.until);
    supply_.Take(*slots);
    outlooks_.clear();
    Note(started);
    running_.push_back(started);
    placement_.place.push_back({job.id, *slots, *port});
    return {};
  }

  // None if the job would delay the head.
  std::optional<SlotSupply::Slots> Choose(const WaitingJob& job) {
    SlotNeed need = job.need;
    if (need.nodes_max > need.nodes) {
      const int room = ledger_.Room(job.user, job.queue) / static_cast<int>(need.each());
      need.nodes_max = std::min(need.nodes_max, room);
    }
    if (!head_.has_value()) return Settled(job, *supply_.Choose(need));
    if (++behind_ > kBackfillMax) return std::nullopt;
    SlotNeed least = need;
    least.nodes_max = 0;
    if (const auto slots = supply_.Choose(need); slots.has_value()) {
      SlotSupply::Slots settled = Settled(job, *slots);
      if (head_->Spares(settled, now_ + job.time_left)) return settled;
    }
    for (const SlotNeed& size : {need, least}) {
      for (const SlotNeed* spared : {static_cast<const SlotNeed*>(nullptr), &head_->head()}) {
        const auto slots = supply_.Choose(size, spared);
        if (slots.has_value() && head_->Spares(*slots, now_ + job.time_left)) return slots;
      }
    }
    return std::nullopt;
  }

  // The slots that the job had before, if it gets as many there; else `fresh`.
  SlotSupply::Slots Settled(const WaitingJob& job, SlotSupply::Slots fresh) const {
    if (job.previous.size() != fresh.size()) return fresh;
    return StickyPlaces(supply_.OpenTo(job.need), job.previous).value_or(std::move(fresh));
  }

  // Only the first of many jobs with the same need costs a look at all workers.
  const Outlook& OutlookFor(const SlotNeed& need) {
    const auto [it, is_new] = outlooks_.try_emplace(need);
    if (!is_new) return it->second;
    const SlotSupply::Count count = supply_.CountFor(need);
    Outlook& outlook = it->second;
    outlook.fits = SlotSupply::Fits(need, count);
    outlook.fits_idle = SlotSupply::FitsIdle(need, count);
    if (!outlook.fits) outlook.no_slots = WhyNoSlots(need, supply_, running_);
    return outlook;
  }

  void Note(const RunningJob& job) {
    ledger_.Add(job.user, job.queue, job.id, static_cast<int>(job.slots.size()));
  }

  const absl::Time now_;
  SlotSupply supply_;
  std::vector<RunningJob> running_;
  PortSupply ports_;
  LimitLedger ledger_;
  std::map<SlotNeed, Outlook> outlooks_;
  std::optional<Reservation> head_;
  JobId head_id_;
  int behind_ = 0;
  bool wanted_ = false;  // a job waits for slots that exist
  int positions_ = 0;    // given so far; a held job has none
  Placement placement_;
};

}  // namespace

Placement PlanPlacement(const PlacementInput& input) {
  Plan plan(input);
  plan.Queue(input.queue);
  plan.Grow(input.growing);
  return plan.Take();
}

Placement PlanPlacement(const Coordinator& coordinator, const PlacementPolicy& policy,
                        absl::Time now, const Job* also) {
  return PlanPlacement(InputOf(coordinator, policy, now, also));
}

}  // namespace dp::core

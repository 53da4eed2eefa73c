#include "server/core/placement.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/core/coordinator.h"
#include "server/core/natural_order.h"
#include "server/core/sticky_places.h"

namespace dp::core {
namespace {

std::string Count(size_t count, absl::string_view thing) {
  return absl::StrCat(count, " ", thing, count == 1 ? "" : "s");
}

// The workers as the jobs placed so far have left them.
class Supply {
 public:
  explicit Supply(std::vector<WorkerSlots> workers) : workers_(std::move(workers)) {
    for (const WorkerSlots& worker : workers_) count_ += worker.count;
  }

  // Takes slots for all ranks.
  // Precondition: FitsNow(job).
  std::vector<PlaceJob::Slot> Take(const WaitingJob& job) {
    if (job.previous.size() == static_cast<size_t>(job.ranks)) {
      if (const auto slots = StickyPlaces(workers_, job.previous)) {
        for (const PlaceJob::Slot& slot : *slots) TakeOne(slot);
        return *slots;
      }
    }
    const size_t ranks = job.ranks;
    const size_t each = job.nodes > 0 ? ranks / job.nodes : ranks;
    std::vector<PlaceJob::Slot> slots;
    for (WorkerSlots* worker : job.nodes > 0 ? Even(job.nodes, each) : Fewest(ranks)) {
      const size_t taken = std::min({worker->free.size(), each, ranks - slots.size()});
      for (size_t i = 0; i < taken; ++i) slots.push_back({worker->id, worker->free[i]});
      worker->free.erase(worker->free.begin(), worker->free.begin() + taken);
    }
    return slots;
  }

  bool FitsNow(const WaitingJob& job) const {
    return job.nodes > 0 ? FreeWorkers(job.ranks / job.nodes) >= static_cast<size_t>(job.nodes)
                         : free() >= static_cast<size_t>(job.ranks);
  }
  // Were nobody else there.
  bool FitsIdle(const WaitingJob& job) const {
    return job.nodes > 0 ? LargeWorkers(job.ranks / job.nodes) >= static_cast<size_t>(job.nodes)
                         : count() >= static_cast<size_t>(job.ranks);
  }

  // Workers with so many slots free, or in all.
  size_t FreeWorkers(size_t slots) const {
    return std::count_if(workers_.begin(), workers_.end(), [slots](const WorkerSlots& worker) {
      return worker.free.size() >= slots;
    });
  }
  size_t LargeWorkers(size_t slots) const {
    return std::count_if(workers_.begin(), workers_.end(), [slots](const WorkerSlots& worker) {
      return static_cast<size_t>(worker.count) >= slots;
    });
  }
  size_t free() const {
    size_t free = 0;
    for (const WorkerSlots& worker : workers_) free += worker.free.size();
    return free;
  }
  size_t count() const { return count_; }
  size_t workers() const { return workers_.size(); }

 private:
  void TakeOne(const PlaceJob::Slot& slot) {
    for (WorkerSlots& worker : workers_) {
      if (worker.id == slot.worker) std::erase(worker.free, slot.slot);
    }
  }

  // As few workers as will do, in natural order: the emptiest ones, and last the tightest that
  // holds the rest, so that large gaps stay for jobs that need them.
  std::vector<WorkerSlots*> Fewest(size_t ranks) {
    std::vector<WorkerSlots*> by_free;
    for (WorkerSlots& worker : workers_) by_free.push_back(&worker);
    std::sort(by_free.begin(), by_free.end(), [](const WorkerSlots* a, const WorkerSlots* b) {
      return a->free.size() != b->free.size() ? a->free.size() > b->free.size()
                                              : NaturallyLess(a->name, b->name);
    });
    std::vector<WorkerSlots*> chosen;
    auto next = by_free.begin();
    for (size_t rest = ranks; rest > 0;) {
      if ((*next)->free.size() >= rest) {
        chosen.push_back(Tightest(next, by_free.end(), rest));
        break;
      }
      rest -= (*next)->free.size();
      chosen.push_back(*next++);
    }
    SortByName(chosen);
    return chosen;
  }

  // The `nodes` tightest workers with `each` slots free, in natural order.
  std::vector<WorkerSlots*> Even(size_t nodes, size_t each) {
    std::vector<WorkerSlots*> chosen;
    for (WorkerSlots& worker : workers_) {
      if (worker.free.size() >= each) chosen.push_back(&worker);
    }
    std::sort(chosen.begin(), chosen.end(), [](const WorkerSlots* a, const WorkerSlots* b) {
      return a->free.size() != b->free.size() ? a->free.size() < b->free.size()
                                              : NaturallyLess(a->name, b->name);
    });
    chosen.resize(nodes);
    SortByName(chosen);
    return chosen;
  }

  static void SortByName(std::vector<WorkerSlots*>& workers) {
    std::sort(workers.begin(), workers.end(), [](const WorkerSlots* a, const WorkerSlots* b) {
      return NaturallyLess(a->name, b->name);
    });
  }

  // Of workers sorted from the most free slots to the fewest, the first of those that hold `ranks`
  // with the least left over.
  static WorkerSlots* Tightest(std::vector<WorkerSlots*>::iterator begin,
                               std::vector<WorkerSlots*>::iterator end, size_t ranks) {
    WorkerSlots* tightest = *begin;
    for (auto it = begin; it != end && (*it)->free.size() >= ranks; ++it) {
      if ((*it)->free.size() < tightest->free.size()) tightest = *it;
    }
    return tightest;
  }

  std::vector<WorkerSlots> workers_;
  size_t count_ = 0;
};

std::string Need(const Supply& supply, const WaitingJob& job) {
  if (job.nodes == 0) {
    return absl::StrCat("needs ", Count(job.ranks, "slot"), ", ", supply.free(), " free of ",
                        supply.count(), " in all on ", Count(supply.workers(), "worker"));
  }
  const size_t each = job.ranks / job.nodes;
  return absl::StrCat("needs ", Count(job.nodes, "worker"), " with ", Count(each, "slot"),
                      " each, ", supply.FreeWorkers(each), " of ",
                      Count(supply.workers(), "worker"), " free for it");
}

std::string Missing(const Supply& supply, const WaitingJob& job) {
  if (job.nodes == 0) {
    return absl::StrCat(Count(job.ranks - supply.count(), "slot"),
                        " missing: start more workers, or submit with fewer ranks");
  }
  const size_t each = job.ranks / job.nodes;
  return absl::StrCat(Count(job.nodes - supply.LargeWorkers(each), "worker"), " with ",
                      Count(each, "slot"),
                      " missing: start more, or submit with fewer nodes or ranks on each");
}

std::vector<std::string> WhyItWaits(const Supply& supply, const WaitingJob& job,
                                    const std::optional<JobId>& ahead) {
  std::vector<std::string> reasons = {Need(supply, job)};
  if (!supply.FitsIdle(job)) {
    reasons.push_back(Missing(supply, job));
  } else if (ahead.has_value()) {
    reasons.push_back(absl::StrCat("job ", ahead->ToString(), " is ahead of it"));
  }
  return reasons;
}

// Without the time that is left: reasons are shown long after they were found.
constexpr char kBacksOff[] = "its last generation failed soon, and the next one is not due yet";

std::string WhyNoPort(const PortSupply& ports) {
  const StorePortRange& range = ports.range();
  const char* taken = "taken by another program where the store would be served, ";
  return absl::StrCat("no store port is left: each of ", range.first, " to ", range.last, " is ",
                      ports.some_unusable() ? taken : "", "a job's, or rests ",
                      absl::FormatDuration(range.rest),
                      " after one; give the coordinator more with --store-ports");
}

std::vector<PlaceJob::Slot> SlotsOf(const Job& job) {
  std::vector<PlaceJob::Slot> slots;
  for (const Rank& rank : job.ranks) slots.push_back({rank.worker_id, rank.slot});
  return slots;
}

}  // namespace

Placement PlanPlacement(const std::vector<WorkerSlots>& workers,
                        const std::vector<WaitingJob>& queue, PortSupply ports, absl::Time now) {
  Placement placement;
  Supply supply(workers);
  std::optional<JobId> ahead;  // the job that all later ones wait for
  for (const WaitingJob& job : queue) {
    if (job.not_before > now) {
      placement.reasons[job.id] = {kBacksOff};
      placement.again_at = std::min(placement.again_at, job.not_before);
      continue;
    }
    if (!ahead.has_value() && supply.FitsNow(job)) {
      const std::optional<int> port = job.store_port ? ports.Take(job.id) : 0;
      if (port.has_value()) {
        placement.place.push_back({job.id, supply.Take(job), *port});
      } else {
        placement.reasons[job.id] = {WhyNoPort(ports)};
        placement.again_at = std::min(placement.again_at, ports.next_at());
      }
      continue;
    }
    placement.reasons[job.id] = WhyItWaits(supply, job, ahead);
    if (!ahead.has_value() && supply.FitsIdle(job)) ahead = job.id;
  }
  return placement;
}

namespace {

// Slots that a job has freed which is likely to want them again in a moment.
std::set<PlaceJob::Slot> KeptSlots(const Coordinator& coordinator) {
  std::set<PlaceJob::Slot> kept;
  for (const Job* job : coordinator.jobs()) {
    if (job->state != JobState::kStopping || !job->may_retry()) continue;
    for (const PlaceJob::Slot& slot : SlotsOf(*job)) kept.insert(slot);
  }
  return kept;
}

}  // namespace

Placement PlanPlacement(const Coordinator& coordinator, const StorePortRange& ports,
                        absl::Time now) {
  const std::set<PlaceJob::Slot> kept = KeptSlots(coordinator);
  std::vector<WorkerSlots> workers;
  for (const Worker* worker : coordinator.workers()) {
    if (!worker->ready() || worker->leaving) continue;
    workers.push_back(
        {worker->id, worker->name, static_cast<int>(worker->slots.size()), worker->free_slots()});
    std::erase_if(workers.back().free, [&](int slot) { return kept.contains({worker->id, slot}); });
  }
  std::vector<WaitingJob> queue;
  for (const Job* job : coordinator.jobs()) {
    if (job->state != JobState::kPending) continue;
    queue.push_back({job->id, job->spec.ranks, job->spec.store_port, job->spec.nodes, SlotsOf(*job),
                     job->not_before});
  }
  return PlanPlacement(workers, queue, PortSupply(coordinator.state().store_ports, ports, now),
                       now);
}

Placement PlanPlacement(const Coordinator& coordinator) {
  return PlanPlacement(coordinator, {}, absl::InfiniteFuture());
}

}  // namespace dp::core

#include "server/core/placement.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/core/coordinator.h"
#include "server/core/natural_order.h"

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
  // Precondition: free() >= ranks.
  std::vector<PlaceJob::Slot> Take(int ranks) {
    std::vector<PlaceJob::Slot> slots;
    for (WorkerSlots* worker : Fewest(ranks)) {
      const size_t taken = std::min(worker->free.size(), ranks - slots.size());
      for (size_t i = 0; i < taken; ++i) slots.push_back({worker->id, worker->free[i]});
      worker->free.erase(worker->free.begin(), worker->free.begin() + taken);
    }
    return slots;
  }

  size_t free() const {
    size_t free = 0;
    for (const WorkerSlots& worker : workers_) free += worker.free.size();
    return free;
  }
  size_t count() const { return count_; }
  size_t workers() const { return workers_.size(); }

 private:
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
    std::sort(chosen.begin(), chosen.end(), [](const WorkerSlots* a, const WorkerSlots* b) {
      return NaturallyLess(a->name, b->name);
    });
    return chosen;
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

std::vector<std::string> WhyItWaits(const Supply& supply, size_t ranks,
                                    const std::optional<JobId>& ahead) {
  std::vector<std::string> reasons = {
      absl::StrCat("needs ", Count(ranks, "slot"), ", ", supply.free(), " free of ", supply.count(),
                   " in all on ", Count(supply.workers(), "worker"))};
  if (ranks > supply.count()) {
    reasons.push_back(absl::StrCat(Count(ranks - supply.count(), "slot"),
                                   " missing: start more workers, or submit with fewer ranks"));
  } else if (ahead.has_value()) {
    reasons.push_back(absl::StrCat("job ", ahead->ToString(), " is ahead of it"));
  }
  return reasons;
}

std::string WhyNoPort(const StorePortRange& range) {
  return absl::StrCat("no store port is left: each of ", range.first, " to ", range.last,
                      " is a job's, or rests ", absl::FormatDuration(range.rest),
                      " after one; give the coordinator more with --store-ports");
}

}  // namespace

Placement PlanPlacement(const std::vector<WorkerSlots>& workers,
                        const std::vector<WaitingJob>& queue, PortSupply ports) {
  Placement placement;
  Supply supply(workers);
  std::optional<JobId> ahead;  // the job that all later ones wait for
  for (const WaitingJob& job : queue) {
    const size_t ranks = job.ranks;
    if (!ahead.has_value() && ranks <= supply.free()) {
      const std::optional<int> port = job.store_port ? ports.Take() : 0;
      if (port.has_value()) {
        placement.place.push_back({job.id, supply.Take(job.ranks), *port});
      } else {
        placement.reasons[job.id] = {WhyNoPort(ports.range())};
        placement.again_at = ports.next_at();
      }
      continue;
    }
    placement.reasons[job.id] = WhyItWaits(supply, ranks, ahead);
    if (!ahead.has_value() && ranks <= supply.count()) ahead = job.id;
  }
  return placement;
}

Placement PlanPlacement(const Coordinator& coordinator, const StorePortRange& ports,
                        absl::Time now) {
  std::vector<WorkerSlots> workers;
  for (const Worker* worker : coordinator.workers()) {
    if (!worker->ready()) continue;
    workers.push_back(
        {worker->id, worker->name, static_cast<int>(worker->slots.size()), worker->free_slots()});
  }
  std::vector<WaitingJob> queue;
  for (const Job* job : coordinator.jobs()) {
    if (job->state == JobState::kPending) {
      queue.push_back({job->id, job->spec.ranks, job->spec.store_port});
    }
  }
  return PlanPlacement(workers, queue, PortSupply(coordinator.state().store_ports, ports, now));
}

Placement PlanPlacement(const Coordinator& coordinator) {
  return PlanPlacement(coordinator, {}, absl::InfiniteFuture());
}

}  // namespace dp::core

#include "server/policy/slot_supply.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/natural_order.h"

namespace dp::core {
namespace {

bool Suits(const WorkerSlots& worker, const SlotNeed& need) {
  return std::all_of(need.constraints.begin(), need.constraints.end(),
                     [&worker](const auto& each) { return Satisfies(worker.labels, each); });
}

// The slots below this number are GPU slots for a job of this kind.
int GpuSlots(const WorkerSlots& worker, SlotKind kind) {
  return kind == SlotKind::kTrainingGpu && !worker.trains_on_gpus ? 0 : worker.gpus;
}

bool IsOfKind(const WorkerSlots& worker, int slot, SlotKind kind) {
  return kind == SlotKind::kAny || (slot < GpuSlots(worker, kind)) == (kind != SlotKind::kCpu);
}

// The range [first, last) of the worker's free slots that are of the kind. GPU slots come first.
std::pair<size_t, size_t> FreeOfKind(const WorkerSlots& worker, SlotKind kind) {
  if (kind == SlotKind::kAny) return {0, worker.free.size()};
  const size_t gpus =
      std::lower_bound(worker.free.begin(), worker.free.end(), GpuSlots(worker, kind)) -
      worker.free.begin();
  return kind == SlotKind::kCpu ? std::pair<size_t, size_t>{gpus, worker.free.size()}
                                : std::pair<size_t, size_t>{0, gpus};
}

size_t AllOfKind(const WorkerSlots& worker, SlotKind kind) {
  const int gpus = std::min(GpuSlots(worker, kind), worker.count);
  return kind == SlotKind::kAny   ? worker.count
         : kind == SlotKind::kCpu ? worker.count - gpus
                                  : gpus;
}

// A worker that could take ranks of the job at hand.
struct Candidate {
  const WorkerSlots* worker = nullptr;
  std::vector<int> free;
};
using Candidates = std::vector<Candidate>;

bool NameLess(const Candidate& a, const Candidate& b) {
  return NaturallyLess(a.worker->name, b.worker->name);
}

bool MoreFree(const Candidate& a, const Candidate& b) {
  return a.free.size() != b.free.size() ? a.free.size() > b.free.size() : NameLess(a, b);
}

bool LessFree(const Candidate& a, const Candidate& b) {
  return a.free.size() != b.free.size() ? a.free.size() < b.free.size() : NameLess(a, b);
}

// As few workers as possible: the emptiest ones, and last the tightest that holds the rest. Large
// gaps thus stay for jobs that need them.
Candidates Fewest(Candidates by_free, size_t ranks) {
  std::sort(by_free.begin(), by_free.end(), MoreFree);
  Candidates chosen;
  auto next = by_free.begin();
  for (size_t rest = ranks; rest > 0; ++next) {
    if (next->free.size() < rest) {
      rest -= next->free.size();
      chosen.push_back(*next);
      continue;
    }
    auto tightest = next;
    for (auto it = next; it != by_free.end() && it->free.size() >= rest; ++it) {
      if (it->free.size() < tightest->free.size()) tightest = it;
    }
    chosen.push_back(*tightest);
    break;
  }
  return chosen;
}

// The `nodes` tightest workers. Precondition: each has enough slots.
Candidates Tightest(Candidates candidates, size_t nodes) {
  std::sort(candidates.begin(), candidates.end(), LessFree);
  candidates.resize(nodes);
  return candidates;
}

// A request for `units`. A unit is a worker if the job names the number of workers, else a slot.
struct Target {
  bool by_worker = false;
  size_t units = 0;

  size_t UnitsOf(const Candidate& candidate) const { return by_worker ? 1 : candidate.free.size(); }
  size_t UnitsOf(const Candidates& candidates) const {
    size_t units = 0;
    for (const Candidate& candidate : candidates) units += UnitsOf(candidate);
    return units;
  }
  // Precondition: the candidates have that many units.
  Candidates Of(Candidates candidates) const {
    return by_worker ? Tightest(std::move(candidates), units)
                     : Fewest(std::move(candidates), units);
  }
};

struct Rack {
  std::string name;
  Candidates candidates;
  size_t units = 0;
};

std::vector<Rack> ByRack(Candidates candidates, const Target& target) {
  std::map<std::string, Candidates> by_name;
  for (Candidate& candidate : candidates) {
    by_name[candidate.worker->rack].push_back(std::move(candidate));
  }
  std::vector<Rack> racks;
  for (auto& [name, members] : by_name) {
    const size_t units = target.UnitsOf(members);
    racks.push_back({name, std::move(members), units});
  }
  return racks;
}

// Among the racks that hold the whole job: the rack where it takes the fewest workers, then the
// tightest. Null if there is none.
const Rack* OneRack(const std::vector<Rack>& racks, const Target& target) {
  const Rack* best = nullptr;
  size_t best_workers = 0;
  for (const Rack& rack : racks) {
    if (rack.units < target.units) continue;
    const size_t workers = target.Of(rack.candidates).size();
    const bool better = best == nullptr || workers < best_workers ||
                        (workers == best_workers && rack.units < best->units);
    if (!better) continue;
    best = &rack;
    best_workers = workers;
  }
  return best;
}

// The workers of the fewest racks that together hold the job: the largest racks, and last the
// smallest that holds the rest.
Candidates OfFewestRacks(std::vector<Rack> racks, const Target& target) {
  std::sort(racks.begin(), racks.end(), [](const Rack& a, const Rack& b) {
    return a.units != b.units ? a.units > b.units : NaturallyLess(a.name, b.name);
  });
  Candidates chosen;
  const auto add = [&chosen](const Rack& rack) {
    chosen.insert(chosen.end(), rack.candidates.begin(), rack.candidates.end());
  };
  size_t rest = target.units;
  for (auto next = racks.begin();; ++next) {
    if (next->units >= rest) {
      auto tightest = next;
      for (auto it = next; it != racks.end() && it->units >= rest; ++it) {
        if (it->units < tightest->units) tightest = it;
      }
      add(*tightest);
      return chosen;
    }
    rest -= next->units;
    add(*next);
  }
}

Candidates Narrowed(Candidates candidates, const Target& target) {
  const std::vector<Rack> racks = ByRack(candidates, target);
  if (racks.size() == 1) return candidates;
  if (const Rack* rack = OneRack(racks, target)) return rack->candidates;
  return OfFewestRacks(racks, target);
}

}  // namespace

SlotSupply::SlotSupply(std::vector<WorkerSlots> workers) : workers_(std::move(workers)) {
  for (size_t i = 0; i < workers_.size(); ++i) by_id_[workers_[i].id] = i;
}

std::optional<SlotSupply::Slots> SlotSupply::Choose(const SlotNeed& need,
                                                    const SlotNeed* spared) const {
  const size_t each = need.each();
  Candidates candidates;
  for (const WorkerSlots& worker : workers_) {
    if (worker.drained || worker.free.empty() || !Suits(worker, need)) continue;
    Candidate candidate{&worker, {}};
    const auto [first, last] = FreeOfKind(worker, need.kind);
    for (size_t i = first; i < last; ++i) {
      const int slot = worker.free[i];
      if (spared == nullptr || !CanUse(*spared, {worker.id, slot})) candidate.free.push_back(slot);
    }
    if (candidate.free.size() >= (need.nodes > 0 ? each : 1)) {
      candidates.push_back(std::move(candidate));
    }
  }
  Target target{need.nodes > 0, static_cast<size_t>(need.nodes > 0 ? need.nodes : need.ranks)};
  if (target.UnitsOf(candidates) < target.units) return std::nullopt;
  if (need.nodes_max > need.nodes) {
    target.units = std::min<size_t>(need.nodes_max, candidates.size());
  }
  Candidates chosen = target.Of(Narrowed(std::move(candidates), target));
  std::sort(chosen.begin(), chosen.end(), [](const Candidate& a, const Candidate& b) {
    return a.worker->rack != b.worker->rack ? NaturallyLess(a.worker->rack, b.worker->rack)
                                            : NameLess(a, b);
  });
  Slots slots;
  const size_t ranks = target.by_worker ? target.units * each : target.units;
  for (const Candidate& candidate : chosen) {
    const size_t taken = std::min({candidate.free.size(), each, ranks - slots.size()});
    for (size_t i = 0; i < taken; ++i) slots.push_back({candidate.worker->id, candidate.free[i]});
  }
  DP_CHECK(slots.size() == ranks);
  return slots;
}

void SlotSupply::Take(const Slots& slots) {
  for (const PlaceJob::Slot& slot : slots) {
    std::vector<int>& free = workers_[by_id_.at(slot.worker)].free;
    const auto it = std::lower_bound(free.begin(), free.end(), slot.slot);
    DP_CHECK(it != free.end() && *it == slot.slot);
    free.erase(it);
  }
}

void SlotSupply::Give(const Slots& slots) {
  for (const PlaceJob::Slot& slot : slots) {
    const auto found = by_id_.find(slot.worker);
    if (found == by_id_.end() || workers_[found->second].drained) continue;
    const std::vector<int>& unhealthy = workers_[found->second].unhealthy;
    if (std::find(unhealthy.begin(), unhealthy.end(), slot.slot) != unhealthy.end()) continue;
    std::vector<int>& free = workers_[found->second].free;
    free.insert(std::lower_bound(free.begin(), free.end(), slot.slot), slot.slot);
  }
}

SlotSupply::Count SlotSupply::CountFor(const SlotNeed& need, bool with_drained) const {
  Count count;
  for (const WorkerSlots& worker : workers_) {
    if ((worker.drained && !with_drained) || !Suits(worker, need)) continue;
    const size_t all = AllOfKind(worker, need.kind);
    if (all == 0) continue;
    const auto [first, last] = FreeOfKind(worker, need.kind);
    count.free += last - first;
    count.all += all;
    count.workers += 1;
    count.free_workers += last - first >= need.each();
    count.large_workers += all >= need.each();
  }
  return count;
}

bool SlotSupply::Fits(const SlotNeed& need, const Count& count) {
  return need.nodes > 0 ? count.free_workers >= static_cast<size_t>(need.nodes)
                        : count.free >= static_cast<size_t>(need.ranks);
}

bool SlotSupply::FitsIdle(const SlotNeed& need, const Count& count) {
  return need.nodes > 0 ? count.large_workers >= static_cast<size_t>(need.nodes)
                        : count.all >= static_cast<size_t>(need.ranks);
}

bool SlotSupply::CanUse(const SlotNeed& need, const PlaceJob::Slot& slot) const {
  const WorkerSlots* worker = Find(slot.worker);
  return worker != nullptr && !worker->drained && IsOfKind(*worker, slot.slot, need.kind) &&
         (need.nodes == 0 || AllOfKind(*worker, need.kind) >= need.each()) && Suits(*worker, need);
}

std::vector<WorkerSlots> SlotSupply::OpenTo(const SlotNeed& need) const {
  std::vector<WorkerSlots> open;
  for (const WorkerSlots& worker : workers_) {
    if (worker.drained || !Suits(worker, need)) continue;
    const auto [first, last] = FreeOfKind(worker, need.kind);
    open.push_back(worker);
    open.back().free.assign(worker.free.begin() + first, worker.free.begin() + last);
  }
  return open;
}

std::vector<const WorkerSlots*> SlotSupply::Eligible(const SlotNeed& need) const {
  std::vector<const WorkerSlots*> eligible;
  for (const WorkerSlots& worker : workers_) {
    if (AllOfKind(worker, need.kind) > 0 && Suits(worker, need)) eligible.push_back(&worker);
  }
  return eligible;
}

const WorkerSlots* SlotSupply::Find(WorkerId id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &workers_[it->second];
}

}  // namespace dp::core

#include "server/policy/sticky_places.h"

#include <algorithm>
#include <set>

#include "base/natural_order.h"

namespace dp::core {
namespace {

using Slots = std::vector<PlaceJob::Slot>;

// The ranks of one worker, which are adjacent.
struct Group {
  WorkerId was_on;
  std::vector<int> slots;
  const WorkerSlots* on = nullptr;
};

std::vector<Group> GroupsOf(const Slots& previous) {
  std::vector<Group> groups;
  for (const PlaceJob::Slot& slot : previous) {
    if (groups.empty() || groups.back().was_on != slot.worker) groups.push_back({slot.worker, {}});
    groups.back().slots.push_back(slot.slot);
  }
  return groups;
}

bool Holds(const WorkerSlots& worker, const Group& group) {
  return worker.free.size() >= group.slots.size();
}

// The tightest of the workers without ranks of the job that hold the group; null if none does.
const WorkerSlots* Tightest(const std::vector<WorkerSlots>& workers, const Group& group,
                            const std::set<WorkerId>& taken) {
  const WorkerSlots* tightest = nullptr;
  for (const WorkerSlots& worker : workers) {
    if (taken.contains(worker.id) || !Holds(worker, group)) continue;
    const bool better =
        tightest == nullptr || worker.free.size() < tightest->free.size() ||
        (worker.free.size() == tightest->free.size() && NaturallyLess(worker.name, tightest->name));
    if (better) tightest = &worker;
  }
  return tightest;
}

void AppendSlots(const Group& group, Slots& places) {
  std::vector<int> free = group.on->free;
  std::vector<std::optional<int>> chosen;
  for (const int slot : group.slots) {
    const bool same = group.on->id == group.was_on && std::erase(free, slot) > 0;
    chosen.push_back(same ? std::optional<int>(slot) : std::nullopt);
  }
  auto next = free.begin();
  for (const std::optional<int>& slot : chosen) {
    places.push_back({group.on->id, slot.has_value() ? *slot : *next++});
  }
}

}  // namespace

std::optional<Slots> StickyPlaces(const std::vector<WorkerSlots>& workers, const Slots& previous) {
  std::vector<Group> groups = GroupsOf(previous);
  std::set<WorkerId> taken;
  for (Group& group : groups) {
    const auto there = std::find_if(workers.begin(), workers.end(), [&](const WorkerSlots& worker) {
      return worker.id == group.was_on && Holds(worker, group);
    });
    if (there == workers.end()) continue;
    group.on = &*there;
    if (!taken.insert(there->id).second) return std::nullopt;  // its ranks are not adjacent
  }
  Slots places;
  for (Group& group : groups) {
    if (group.on == nullptr) group.on = Tightest(workers, group, taken);
    if (group.on == nullptr) return std::nullopt;
    taken.insert(group.on->id);
    AppendSlots(group, places);
  }
  return places;
}

}  // namespace dp::core

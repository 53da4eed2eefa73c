#include "server/driver/heartbeats.h"

#include <algorithm>
#include <utility>

namespace dp::server {

std::optional<Heartbeats::Renewal> Heartbeats::Note(const Beat& beat) {
  MutexLock lock(mu_);
  const auto it = known_.find(beat.worker);
  if (it == known_.end() || it->second.incarnation != beat.incarnation) return std::nullopt;
  Known& known = it->second;
  if (!beat.name.empty() && beat.name != known.name) return std::nullopt;
  if (!known.beat.has_value()) beating_.push_back(beat.worker);
  known.beat = beat;
  return Renewal{epoch_, revision_, known.offer};
}

void Heartbeats::Publish(const core::Coordinator& coordinator, const core::Liveness& liveness) {
  std::map<WorkerId, Known> fresh;
  for (const auto& [id, worker] : coordinator.state().workers.by_id()) {
    // A daemon that leaves says so with every heartbeat, so its heartbeats are commands.
    if (!worker.ready() || worker.leaving) continue;
    // Whether its certificate still counts must be asked each time.
    if (coordinator.state().access.WasRevoked({security::Role::kWorker, worker.name})) continue;
    fresh.emplace_hint(fresh.end(), id,
                       Known{worker.incarnation, worker.name, liveness.offer(id), {}});
  }
  MutexLock lock(mu_);
  epoch_ = coordinator.epoch();
  revision_ = coordinator.revision();
  for (const WorkerId worker : std::exchange(beating_, {})) {
    const auto it = fresh.find(worker);
    const Known& before = known_.at(worker);
    if (it == fresh.end() || it->second.incarnation != before.incarnation) continue;
    it->second.beat = before.beat;
    beating_.push_back(worker);
  }
  known_.swap(fresh);
}

void Heartbeats::Advance(Revision revision) {
  MutexLock lock(mu_);
  revision_ = revision;
}

std::vector<Heartbeats::Beat> Heartbeats::Take() {
  MutexLock lock(mu_);
  std::vector<Beat> beats;
  for (const WorkerId worker : std::exchange(beating_, {})) {
    beats.push_back(*std::exchange(known_.at(worker).beat, std::nullopt));
  }
  return beats;
}

void Heartbeats::TellLiveness(const core::Coordinator& coordinator, core::Liveness& liveness,
                              absl::Time now) {
  const absl::Time earliest = std::min(std::exchange(told_at_, now), now);
  for (const Beat& beat : Take()) {
    if (!coordinator.CheckWorker(beat.worker, beat.incarnation).ok()) continue;
    if (coordinator.worker(beat.worker)->leaving) continue;
    liveness.Hear(beat.worker, beat.incarnation, std::clamp(beat.at, earliest, now),
                  beat.lease_number);
  }
}

bool Heartbeats::Revoke(WorkerId worker) {
  MutexLock lock(mu_);
  const auto it = known_.find(worker);
  if (it == known_.end()) return true;
  if (it->second.beat.has_value()) return false;
  known_.erase(it);
  return true;
}

void Heartbeats::Close() {
  MutexLock lock(mu_);
  known_.clear();
  beating_.clear();
}

}  // namespace dp::server

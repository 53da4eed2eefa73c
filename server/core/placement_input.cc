#include "server/core/placement_input.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "server/core/coordinator.h"

namespace dp::core {
namespace {

WorkerSlots SlotsOf(const Worker& worker, const std::string& rack_label) {
  WorkerSlots slots{.id = worker.id,
                    .name = worker.name,
                    .count = static_cast<int>(worker.slots.size()),
                    .free = worker.free_slots(),
                    .gpus = worker.gpus,
                    .labels = worker.labels,
                    .drained = worker.drain.has_value()};
  // What every worker has, unless it says otherwise.
  slots.labels.emplace("worker", worker.name);
  slots.labels.emplace("host", worker.host);
  const auto rack = slots.labels.find(rack_label);
  if (rack != slots.labels.end()) slots.rack = rack->second;
  return slots;
}

// By priority; of the same one in the order in which they were queued.
bool GoesBefore(const Job* a, const Job* b) {
  const auto turn = [](const Job& job) { return std::tuple(-job.priority, job.queued, job.id); };
  return turn(*a) < turn(*b);
}

// The earliest job of each name and user that is not over.
using Earliest = std::map<std::pair<std::string, std::string>, JobId>;

WaitingJob WaitingOf(const Job& job, const Earliest& earliest) {
  const JobSpec& spec = job.spec;
  WaitingJob waiting{.id = job.id,
                     .need = {spec.ranks, spec.nodes, spec.nodes_max, spec.scheduling.slots,
                              spec.scheduling.constraints},
                     .store_port = spec.store_port,
                     .user = job.user,
                     .queue = spec.scheduling.queue,
                     .time_left = job.time_left,
                     .not_before = job.not_before};
  for (const Rank& rank : job.ranks) waiting.previous.push_back({rank.worker_id, rank.slot});
  const JobId first = earliest.at({spec.name, job.user});
  waiting.not_its_turn = WhyNotItsTurn(job, first < job.id ? first : JobId());
  return waiting;
}

// Slots that a job has freed which is likely to want them again in a moment.
std::set<PlaceJob::Slot> KeptSlots(const Coordinator& coordinator) {
  std::set<PlaceJob::Slot> kept;
  for (const Job* job : coordinator.jobs()) {
    if (job->state != JobState::kStopping || !job->may_retry()) continue;
    for (const Rank& rank : job->ranks) kept.insert({rank.worker_id, rank.slot});
  }
  return kept;
}

// Nothing where it holds no slot.
RunningJob RunningOf(const Job& job, absl::Time now) {
  RunningJob running{.id = job.id, .user = job.user, .queue = job.spec.scheduling.queue};
  for (const Rank& rank : job.ranks) {
    if (rank.live()) running.slots.push_back({rank.worker_id, rank.slot});
  }
  if (job.deadline.has_value()) running.until = *job.deadline;
  if (job.state == JobState::kStopping) running.until = now;
  return running;
}

}  // namespace

PlacementInput InputOf(const Coordinator& coordinator, const PlacementPolicy& policy,
                       absl::Time now, const Job* also) {
  PlacementInput input{
      .ports = PortSupply(coordinator.state().store_ports, policy.ports, now),
      .limits = policy.limits,
      .now = now,
  };
  const std::set<PlaceJob::Slot> kept = KeptSlots(coordinator);
  for (const Worker* worker : coordinator.workers()) {
    if (!worker->ready() || worker->leaving) continue;
    WorkerSlots slots = SlotsOf(*worker, policy.rack_label);
    std::erase_if(slots.free, [&](int slot) { return kept.contains({worker->id, slot}); });
    input.workers.push_back(std::move(slots));
  }
  std::vector<const Job*> jobs = coordinator.jobs(), pending;
  if (also != nullptr) jobs.push_back(also);
  Earliest earliest;
  for (const Job* job : jobs) {
    if (job->terminal()) continue;
    earliest.try_emplace({job->spec.name, job->user}, job->id);
    if (job->state == JobState::kPending) {
      pending.push_back(job);
    } else if (RunningJob running = RunningOf(*job, now); !running.slots.empty()) {
      input.running.push_back(std::move(running));
    }
  }
  std::sort(pending.begin(), pending.end(), GoesBefore);
  for (const Job* job : pending) input.queue.push_back(WaitingOf(*job, earliest));
  return input;
}

}  // namespace dp::core

#include "server/policy/placement_input.h"

#include <algorithm>
#include <map>
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
                    .trains_on_gpus = worker.trains_on_gpus,
                    .labels = worker.labels,
                    .drained = worker.drain.has_value()};
  for (const auto& [slot, reason] : worker.unhealthy) slots.unhealthy.push_back(slot);
  // Every worker has these labels, unless it sets them itself.
  slots.labels.emplace("worker", worker.name);
  slots.labels.emplace("host", worker.host);
  const auto rack = slots.labels.find(rack_label);
  if (rack != slots.labels.end()) slots.rack = rack->second;
  return slots;
}

// By priority, then in the order in which they were queued.
bool GoesBefore(const Job* a, const Job* b) {
  const auto turn = [](const Job& job) { return std::tuple(-job.priority, job.queued, job.id); };
  return turn(*a) < turn(*b);
}

// The earliest unfinished job of each name and user.
using Earliest = std::map<std::pair<std::string, std::string>, JobId>;

SlotNeed NeedOf(const JobSpec& spec) {
  return {spec.ranks, spec.nodes, spec.nodes_max, spec.scheduling.slots,
          spec.scheduling.constraints};
}

WaitingJob WaitingOf(const Job& job, const Earliest& earliest) {
  const JobSpec& spec = job.spec;
  WaitingJob waiting{.id = job.id,
                     .need = NeedOf(spec),
                     .store_port = spec.store_port,
                     .user = job.user,
                     .queue = spec.scheduling.queue,
                     .time_left = job.time_left,
                     .not_before = job.not_before,
                     .priority = job.priority};
  if (!job.past.empty()) waiting.preempted_by = job.past.back().failure.preempted_by;
  for (const Rank& rank : job.ranks) waiting.previous.push_back({rank.worker_id, rank.slot});
  const JobId first = earliest.at({spec.name, job.user});
  waiting.not_its_turn = WhyNotItsTurn(job, first < job.id ? first : JobId());
  return waiting;
}

// Slots that a job has freed, but will probably need again in a moment.
std::map<PlaceJob::Slot, JobId> KeptSlots(const Coordinator& coordinator) {
  std::map<PlaceJob::Slot, JobId> kept;
  for (const Job* job : coordinator.unfinished_jobs()) {
    if (job->state != JobState::kStopping || !job->may_retry()) continue;
    for (const Rank& rank : job->ranks) kept[{rank.worker_id, rank.slot}] = job->id;
  }
  return kept;
}

// Adds the effects of a stop, or of a request to leave, on other jobs.
void AddLeaving(const Job& job, absl::Time now, RunningJob& running) {
  const bool stopping = job.state == JobState::kStopping;
  if (!stopping && !job.handover.has_value()) return;
  running.leaving = true;
  if (stopping) {
    running.returns = job.may_retry();
    running.leaves_for = job.failure->preempted_by;
  } else {
    running.returns = job.handover->cause != HandoverCause::kDeadline;
    running.leaves_for = job.handover->preempted_by;
  }
  // A job that moves elsewhere may take as long as it likes.
  if (stopping || job.handover->cause != HandoverCause::kMove) running.until = now;
}

// Without slots if the job holds none.
RunningJob RunningOf(const Job& job, absl::Time now) {
  RunningJob running{.id = job.id, .user = job.user, .queue = job.spec.scheduling.queue};
  for (const Rank& rank : job.ranks) {
    if (rank.live()) running.slots.push_back({rank.worker_id, rank.slot});
  }
  if (job.deadline.has_value()) running.until = *job.deadline;
  running.priority = job.priority;
  running.since = job.placed_at.value_or(absl::InfinitePast());
  running.preemptible = job.spec.scheduling.preemptible && job.spec.restart.has_value();
  AddLeaving(job, now, running);
  return running;
}

// False while the job is ending.
bool MayGrow(const Job& job) {
  const bool runs = job.state == JobState::kRunning && !job.handover.has_value() &&
                    std::all_of(job.ranks.begin(), job.ranks.end(),
                                [](const Rank& rank) { return rank.state < RankState::kExited; });
  return runs && job.spec.restart.has_value() && job.world_size() < job.spec.ranks_max() &&
         job.spec.scheduling.grow_after < absl::InfiniteDuration();
}

GrowingJob GrowingOf(const Job& job) {
  const Scheduling& scheduling = job.spec.scheduling;
  GrowingJob growing{.id = job.id,
                     .need = NeedOf(job.spec),
                     .store_port = job.spec.store_port,
                     .user = job.user,
                     .queue = scheduling.queue,
                     .not_before = *job.running_at + scheduling.grow_after};
  for (const Rank& rank : job.ranks) {
    if (rank.live()) growing.slots.push_back({rank.worker_id, rank.slot});
  }
  return growing;
}

}  // namespace

PlacementInput InputOf(const Coordinator& coordinator, const PlacementPolicy& policy,
                       absl::Time now, const Job* also) {
  PlacementInput input{
      .ports = PortSupply(coordinator.state().store_ports, policy.ports, now),
      .limits = policy.limits,
      .now = now,
  };
  const std::map<PlaceJob::Slot, JobId> kept = KeptSlots(coordinator);
  std::map<JobId, SlotSupply::Slots> kept_by;
  for (const Worker* worker : coordinator.workers()) {
    if (!worker->ready() || worker->leaving) continue;
    WorkerSlots slots = SlotsOf(*worker, policy.rack_label);
    std::erase_if(slots.free, [&](int slot) {
      const auto by = kept.find({worker->id, slot});
      if (by == kept.end()) return false;
      kept_by[by->second].push_back(by->first);
      return true;
    });
    input.workers.push_back(std::move(slots));
  }
  std::vector<const Job*> jobs = coordinator.unfinished_jobs(), pending, growing;
  if (also != nullptr) jobs.push_back(also);
  Earliest earliest;
  for (const Job* job : jobs) {
    earliest.try_emplace({job->spec.name, job->user}, job->id);
    if (MayGrow(*job)) growing.push_back(job);
    if (job->state == JobState::kPending) {
      pending.push_back(job);
    } else if (RunningJob running = RunningOf(*job, now); !running.slots.empty()) {
      if (const auto own = kept_by.find(job->id); own != kept_by.end()) running.kept = own->second;
      input.running.push_back(std::move(running));
    }
  }
  std::sort(pending.begin(), pending.end(), GoesBefore);
  std::sort(growing.begin(), growing.end(), GoesBefore);
  for (const Job* job : growing) input.growing.push_back(GrowingOf(*job));
  for (const Job* job : pending) input.queue.push_back(WaitingOf(*job, earliest));
  return input;
}

}  // namespace dp::core

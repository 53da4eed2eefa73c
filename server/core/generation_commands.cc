// The commands that begin and end the generations of a job.

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/coordinator.h"
#include "server/core/job_lifecycle.h"

namespace dp::core {
namespace {

// Errors: FailedPrecondition the job waits for more than slots.
absl::Status CheckTurn(const Job& job) {
  if (job.held) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job.id.ToString(), " is held"));
  }
  for (const AwaitedJob& awaited : job.after) {
    if (awaited.state == AwaitedJob::State::kDone) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id.ToString(), " waits for job ", awaited.on.job.ToString()));
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const Job& job, size_t slots) {
  const size_t min = job.spec.ranks, max = job.spec.ranks_max();
  if (slots >= min && slots <= max && (slots - min) % job.spec.ranks_per_node() == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("job ", job.id.ToString(), ": ", slots, " slots for ", min,
                   max > min ? absl::StrCat(" to ", max) : "", " ranks"));
}

}  // namespace

absl::StatusOr<Reply> Coordinator::On(const PlaceJob& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, state_.jobs.Get(command.job));
  DP_RETURN_IF_ERROR(CheckPlacement(*job, command));
  const Sight before = See(*job);
  const Generation generation = NextGeneration(*job);
  std::map<WorkerId, int> ranks_on;
  std::vector<Rank> ranks;
  // One rank without a GPU keeps all ranks off GPUs: they could not communicate.
  bool on_gpus = job->spec.gpu_training;
  for (const PlaceJob::Slot& slot : command.slots) {
    const Worker& worker = *state_.workers.Find(slot.worker);
    Rank rank;
    rank.worker_id = slot.worker;
    rank.worker = worker.name;
    rank.host = worker.host;
    rank.address = worker.address;
    rank.slot = slot.slot;
    rank.local_rank = ranks_on[slot.worker]++;
    if (!worker.ports.empty()) rank.port = worker.ports[slot.slot];
    on_gpus = on_gpus && worker.trains_on_gpus && slot.slot < worker.gpus;
    state_.workers.Occupy(slot.worker, slot.slot,
                          {job->id, generation, static_cast<int>(ranks.size())});
    ranks.push_back(std::move(rank));
  }
  Place(*job, std::move(ranks), at);
  job->on_gpus = on_gpus;
  job->store_port = command.store_port;
  if (job->store_port != 0) state_.store_ports.Take(job->store_port, job->id);
  state_.stores.try_emplace(job->id, state_.store_limits, state_.kept_answers);
  TouchWorld(job->id);
  Moved(*job, before);
  return Reply();
}

absl::Status Coordinator::CheckPlacement(const Job& job, const PlaceJob& command) const {
  if (job.state != JobState::kPending) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job.id.ToString(), " is ", Name(job.state), "; only a pending job can be placed"));
  }
  DP_RETURN_IF_ERROR(CheckTurn(job));
  DP_RETURN_IF_ERROR(CheckSize(job, command.slots.size()));
  DP_RETURN_IF_ERROR(CheckStorePort(job, command.store_port));
  std::set<PlaceJob::Slot> taken;
  for (const PlaceJob::Slot& slot : command.slots) {
    const Worker* worker = state_.workers.Find(slot.worker);
    const bool exists = worker != nullptr && worker->open() && slot.slot >= 0 &&
                        static_cast<size_t>(slot.slot) < worker->slots.size() &&
                        !worker->unhealthy.contains(slot.slot);
    if (exists && !worker->slots[slot.slot].has_value() && taken.insert(slot).second) continue;
    return absl::AbortedError(absl::StrCat("job ", job.id.ToString(), ": slot ", slot.slot,
                                           " of worker ", slot.worker.ToString(),
                                           " is not free; plan again"));
  }
  return absl::OkStatus();
}

absl::Status Coordinator::CheckStorePort(const Job& job, int port) const {
  if (job.spec.store_port != (port != 0) || port < 0 || port > StorePorts::kPortMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", job.id.ToString(), ": store port ", port,
                     job.spec.store_port ? "; it needs one from 1 to " : "; it needs none of 1 to ",
                     StorePorts::kPortMax));
  }
  if (!state_.store_ports.held(port)) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("job ", job.id.ToString(), ": store port ", port,
                                         " is another job's; plan again"));
}

absl::StatusOr<Job*> Coordinator::Awaiting(JobId id, Generation generation) {
  DP_ASSIGN_OR_RETURN(Job * job, JobOf({id, generation, 0}));
  if (job->awaits_verdict()) return job;
  return absl::FailedPreconditionError(absl::StrCat("job ", id.ToString(), " is ", Name(job->state),
                                                    job->live() ? " and has ranks" : "",
                                                    "; no verdict is due"));
}

absl::StatusOr<Reply> Coordinator::On(const RetryJob& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, Awaiting(command.job, command.generation));
  const Sight before = See(*job);
  Retry(*job, command, at);
  Moved(*job, before);
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const FinishJob& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, Awaiting(command.job, command.generation));
  const Sight before = See(*job);
  dp::core::Finish(*job, command.reason, at);
  Moved(*job, before);
  return Reply();
}

}  // namespace dp::core

#include "tests/sim/service.h"

#include <utility>

#include "store/awaited_keys.h"

namespace dp::sim {

using core::Topic;

void Service::Act(core::Action action, Reply<Done> reply) {
  driver_.Submit(std::move(action), [reply = std::move(reply)](const core::Outcome& outcome) {
    outcome.status.ok() ? reply(Done{}) : reply(outcome.status);
  });
}

Incarnation Service::Fence(WorkerId worker, Incarnation incarnation) const {
  const core::Worker* known = coordinator().worker(worker);
  return plant_ == Plant::kIgnoreIncarnation && known != nullptr ? known->incarnation : incarnation;
}

void Service::SubmitJob(const core::SubmitJob& request, Reply<JobId> reply) {
  driver_.Submit(request, [reply = std::move(reply)](const core::Outcome& outcome) {
    outcome.status.ok() ? reply(std::get<JobId>(outcome.reply)) : reply(outcome.status);
  });
}

void Service::CancelJob(JobId job, Reply<Done> reply) {
  Act(core::CancelJob{job}, std::move(reply));
}

void Service::WatchJob(JobId job, Revision since, absl::Duration timeout, Reply<core::Job> reply) {
  const auto ready = [this, job, since] {
    const core::Job* found = coordinator().job(job);
    return found == nullptr || found->version > since;
  };
  driver_.Wait({{Topic::Kind::kJob, job.value()}}, timeout, ready,
               [this, job, reply = std::move(reply)] {
                 const core::Job* found = coordinator().job(job);
                 found == nullptr ? reply(absl::NotFoundError("no such job")) : reply(*found);
               });
}

void Service::Register(const core::RegisterWorker& request, Reply<WorkerId> reply) {
  driver_.Submit(request, [reply = std::move(reply)](const core::Outcome& outcome) {
    outcome.status.ok() ? reply(std::get<WorkerId>(outcome.reply)) : reply(outcome.status);
  });
}

void Service::SilenceOf(const std::string& name, Reply<absl::Duration> reply) {
  const absl::StatusOr<WorkerId> id = coordinator().state().workers.IdOf(name);
  if (!id.ok()) return reply(id.status());
  reply(driver_.liveness().silent_for(*id, driver_.now()).value_or(absl::ZeroDuration()));
}

void Service::Heartbeat(WorkerId worker, Incarnation incarnation, uint64_t lease_number,
                        Reply<core::Liveness::Lease> reply) {
  const Incarnation fence = Fence(worker, incarnation);
  driver_.Hear(worker, fence, lease_number, [=, this, reply = std::move(reply)](auto renewed) {
    if (renewed.has_value()) return reply(*renewed);
    const absl::Status status = coordinator().CheckWorker(worker, fence);
    if (!status.ok()) return reply(status);
    reply(plant_ == Plant::kShortenAtOnce ? core::Liveness::Lease{SimulatedDriver::kLease}
                                          : driver_.liveness().offer(worker));
  });
}

void Service::WatchAssignment(WorkerId worker, Incarnation incarnation, Revision since,
                              absl::Duration timeout, Reply<core::Assignment> reply) {
  const Topic topic{Topic::Kind::kAssignment, worker.value()};
  const auto ready = [=, this] {
    return !coordinator().CheckWorker(worker, Fence(worker, incarnation)).ok() ||
           coordinator().version(topic) > since;
  };
  driver_.Wait({topic}, timeout, ready, [=, this, reply = std::move(reply)] {
    reply(coordinator().assignment(worker, Fence(worker, incarnation)));
  });
}

void Service::ReportRank(const core::ReportRank& request, Reply<Done> reply) {
  core::ReportRank fenced = request;
  fenced.incarnation = Fence(request.worker, request.incarnation);
  Act(std::move(fenced), std::move(reply));
}

void Service::Accuse(const core::AccusePeers& request, Reply<Done> reply) {
  Act(request, std::move(reply));
}

void Service::RegisterCheckpoint(const core::RegisterCheckpoint& request, Reply<Done> reply) {
  Act(request, std::move(reply));
}

void Service::Join(const core::RankKey& rank, Reply<core::World> reply) {
  driver_.Submit(core::JoinWorld{rank, /*tells_first_step=*/rank.rank == 0},
                 [this, job = rank.job, reply = std::move(reply)](const core::Outcome& outcome) {
                   outcome.status.ok() ? reply(coordinator().world(job)) : reply(outcome.status);
                 });
}

void Service::WatchWorld(JobId job, Generation generation, Revision since, absl::Duration timeout,
                         Reply<core::World> reply) {
  const auto ready = [this, job, generation, since] {
    return coordinator().version({Topic::Kind::kWorld, job.value()}) > since &&
           core::ConcernsItsRanks(*coordinator().job(job), generation);
  };
  driver_.Wait({{Topic::Kind::kWorldState, job.value()}}, timeout, ready,
               [this, job, reply = std::move(reply)] { reply(coordinator().world(job)); });
}

void Service::Execute(const core::StoreBatch& batch, Reply<std::vector<StoreResult>> reply) {
  core::StoreBatch counted = batch;
  if (plant_ == Plant::kForgetRetries) counted.sequence = ++sequence_;
  driver_.Submit(std::move(counted), [reply = std::move(reply)](const core::Outcome& outcome) {
    outcome.status.ok() ? reply(std::get<std::vector<StoreResult>>(outcome.reply))
                        : reply(outcome.status);
  });
}

void Service::Await(JobId job, Generation generation, std::vector<StoreOperation> reads,
                    absl::Duration timeout, Reply<Done> reply) {
  std::vector<Topic> topics = {{Topic::Kind::kWorldState, job.value()}};
  const std::vector<std::string> keys = AwaitedKeys(reads).value();
  for (const std::string& key : keys) {
    topics.push_back({Topic::Kind::kStoreKey, job.value(), key});
  }
  const auto ready = [this, job, generation, reads] {
    const auto store = coordinator().store(job, generation);
    return !store.ok() || (*store)->Missing(reads).empty();
  };
  driver_.Wait(std::move(topics), timeout, ready,
               [this, job, generation, reads, reply = std::move(reply)] {
                 const auto store = coordinator().store(job, generation);
                 if (!store.ok()) return reply(store.status());
                 if (!(*store)->Missing(reads).empty()) {
                   return reply(absl::DeadlineExceededError("keys are missing"));
                 }
                 reply(Done{});
               });
}

}  // namespace dp::sim

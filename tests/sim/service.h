#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/sim/simulated_driver.h"

namespace dp::sim {

template <typename T>
using Reply = std::function<void(absl::StatusOr<T>)>;

// An answer without a value.
struct Done {};

// The RPCs of proto/dp/v1 on a simulated coordinator, with the core's values as messages.
class Service {
 public:
  explicit Service(SimulatedDriver& driver, Plant plant) : driver_(driver), plant_(plant) {}

  bool up() const { return driver_.up(); }

  void SubmitJob(const core::SubmitJob& request, Reply<JobId> reply);
  void CancelJob(JobId job, Reply<Done> reply);
  void WatchJob(JobId job, Revision since, absl::Duration timeout, Reply<core::Job> reply);

  void Register(const core::RegisterWorker& request, Reply<WorkerId> reply);
  // How long the worker of this name has been silent.
  void SilenceOf(const std::string& name, Reply<absl::Duration> reply);
  void Heartbeat(WorkerId worker, Incarnation incarnation, uint64_t lease_number,
                 Reply<core::Liveness::Lease> reply);
  void WatchAssignment(WorkerId worker, Incarnation incarnation, Revision since,
                       absl::Duration timeout, Reply<core::Assignment> reply);
  void ReportRank(const core::ReportRank& request, Reply<Done> reply);

  void Join(const core::RankKey& rank, Reply<core::World> reply);
  void WatchWorld(JobId job, Generation generation, Revision since, absl::Duration timeout,
                  Reply<core::World> reply);
  void Accuse(const core::AccusePeers& request, Reply<Done> reply);

  void RegisterCheckpoint(const core::RegisterCheckpoint& request, Reply<Done> reply);
  // A command from a user of dpctl.
  void Act(core::Action action, Reply<Done> reply);

  void Execute(const core::StoreBatch& batch, Reply<std::vector<StoreResult>> reply);
  void Await(JobId job, Generation generation, std::vector<StoreOperation> reads,
             absl::Duration timeout, Reply<Done> reply);

 private:
  // The incarnation that the fence compares: the caller's own, unless kIgnoreIncarnation is
  // planted.
  Incarnation Fence(WorkerId worker, Incarnation incarnation) const;
  const core::Coordinator& coordinator() const { return driver_.coordinator(); }

  SimulatedDriver& driver_;
  const Plant plant_;
  uint64_t sequence_ = 1'000'000;  // for the plant kForgetRetries
};

}  // namespace dp::sim

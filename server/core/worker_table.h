#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/core/command.h"
#include "server/core/worker.h"

namespace dp::core {

// AlreadyExists: this worker, which is ready, has its name.
absl::Status NameTaken(const Worker& worker);

// The workers, their slots, and the rank that holds each slot. A worker is a name. Each process of
// its daemon is an incarnation, and a lost incarnation never comes back. Not thread-safe; owned by
// the Coordinator.
class WorkerTable {
 public:
  // Lost workers stay listed for an hour, drained ones until they are undrained; at most this many.
  static constexpr absl::Duration kLostKeptFor = absl::Hours(1);
  static constexpr size_t kLostMax = 1000;
  // Lost incarnations that are remembered, to reject them. A forgotten one would have been isolated
  // while this many others died.
  static constexpr size_t kLostLivesMax = 10'000;

  // All that the table can be rebuilt from.
  struct Contents {
    uint64_t last_id = 0;
    std::map<WorkerId, Worker> workers;
    std::deque<Incarnation> lost_lives;  // the oldest first
  };

  WorkerTable() = default;
  explicit WorkerTable(Contents contents);

  struct Registered {
    WorkerId id;
    bool changed = false;  // false: this incarnation was registered before
  };

  // Makes this incarnation the current one of its name. Without a name, the worker gets its host's
  // name, or the first of host-2, host-3, ... that no ready worker has. Idempotent by incarnation.
  // Errors: InvalidArgument; FailedPrecondition this incarnation was lost; AlreadyExists a ready
  // worker has the name. A worker that is leaving and has no rank left gives up its name.
  absl::StatusOr<Registered> Register(const RegisterWorker& request, absl::Time at);

  // Gives up the current incarnation of a worker, and its slots. Returns the ranks that held them.
  std::vector<RankKey> Lose(WorkerId id, const std::string& reason, absl::Time at);
  // Records which slots the daemon reports as unhealthy. Returns false for an old report.
  // Precondition: the worker is ready.
  // Errors: InvalidArgument it has no such slot.
  absl::StatusOr<bool> SetUnhealthy(const ReportSlots& report);

  // Stops giving out slots of the current incarnation. Returns whether anything changed.
  bool Leave(WorkerId id);

  // Stops giving out slots of the worker, whatever its incarnation, until EndDrain. Both return
  // whether anything changed.
  bool SetDrain(WorkerId id, Drain drain);
  bool EndDrain(WorkerId id);

  // Precondition: the slot exists and is free.
  void Occupy(WorkerId id, int slot, const RankKey& rank);
  // Frees the slot if this rank still holds it.
  void Vacate(WorkerId id, int slot, const RankKey& rank);

  // Null when unknown.
  const Worker* Find(WorkerId id) const;
  // The ready worker with this incarnation; null if there is none.
  const Worker* FindLife(Incarnation incarnation) const;
  // Errors: NotFound.
  absl::StatusOr<WorkerId> IdOf(const std::string& name) const;
  // Errors: NotFound unknown; FailedPrecondition lost, or replaced by another incarnation.
  absl::Status Check(WorkerId id, Incarnation incarnation) const;
  // By name, in natural order.
  std::vector<const Worker*> workers() const;
  const std::map<WorkerId, Worker>& by_id() const { return workers_; }
  uint64_t last_id() const { return last_id_; }
  // The oldest first.
  const std::deque<Incarnation>& lost_lives() const { return lost_lives_in_order_; }

 private:
  std::string FreeName(const std::string& host) const;
  Worker& Named(const std::string& name);
  std::vector<RankKey> EndLife(Worker& worker, const std::string& reason, absl::Time at);
  void RememberLost(Incarnation incarnation);
  void DropLongLost(absl::Time now);

  uint64_t last_id_ = 0;
  std::map<WorkerId, Worker> workers_;
  std::map<std::string, WorkerId> by_name_;
  std::map<Incarnation, WorkerId> by_incarnation_;  // of the ready workers
  std::set<Incarnation> lost_lives_;
  std::deque<Incarnation> lost_lives_in_order_;
};

}  // namespace dp::core

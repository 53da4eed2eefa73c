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

class Digest;

// Who has slots, and which rank holds which. A worker is a name; one life of its daemon is an
// incarnation, and a lost life never comes back. Not thread-safe; owned by the Coordinator.
class WorkerTable {
 public:
  // Lost workers stay listed for an hour, those that are drained until they are undrained, and no
  // more than so many of them.
  static constexpr absl::Duration kLostKeptFor = absl::Hours(1);
  static constexpr size_t kLostMax = 1000;
  // Lost lives that are remembered, to refuse them. An older one would have to have been cut off
  // while so many others died.
  static constexpr size_t kLostLivesMax = 10'000;

  // What it can be made of again.
  struct Contents {
    uint64_t last_id = 0;
    std::map<WorkerId, Worker> workers;
    std::deque<Incarnation> lost_lives;  // the oldest first
  };

  WorkerTable() = default;
  explicit WorkerTable(Contents contents);

  struct Registered {
    WorkerId id;
    bool changed = false;  // false: this life was registered before
  };

  // Makes this life the current one of its name. Without a name it takes the host's, or host-2,
  // host-3, ..., whichever no ready worker has. Idempotent by incarnation.
  // Errors: InvalidArgument; FailedPrecondition this life was lost; AlreadyExists the name's life
  // has its lease, unless it is leaving and no rank holds a slot of it.
  absl::StatusOr<Registered> Register(const RegisterWorker& request, absl::Time at);

  // Gives up on a worker's current life; its slots are gone. Returns the ranks that held them.
  std::vector<RankKey> Lose(WorkerId id, const std::string& reason, absl::Time at);
  // Takes its daemon's word on its slots; returns whether that is news. Precondition: it is ready.
  // Errors: InvalidArgument it has no such slot.
  absl::StatusOr<bool> SetUnhealthy(const ReportSlots& report);

  // Gives no more slots of the current life away. Returns whether that is news.
  bool Leave(WorkerId id);

  // Gives no slots of the worker away, whatever its life, until EndDrain. Each returns whether that
  // is news.
  bool SetDrain(WorkerId id, Drain drain);
  bool EndDrain(WorkerId id);

  // The slot exists and is free.
  void Occupy(WorkerId id, int slot, const RankKey& rank);
  // Frees the slot if this rank still holds it.
  void Vacate(WorkerId id, int slot, const RankKey& rank);

  // Null when unknown.
  const Worker* Find(WorkerId id) const;
  // The ready worker with this current life; null when there is none.
  const Worker* FindLife(Incarnation incarnation) const;
  // Errors: NotFound.
  absl::StatusOr<WorkerId> IdOf(const std::string& name) const;
  // Errors: NotFound unknown; FailedPrecondition lost, or another life has taken over.
  absl::Status Check(WorkerId id, Incarnation incarnation) const;
  // By name, in natural order.
  std::vector<const Worker*> workers() const;
  const std::map<WorkerId, Worker>& by_id() const { return workers_; }
  uint64_t last_id() const { return last_id_; }
  // The oldest first.
  const std::deque<Incarnation>& lost_lives() const { return lost_lives_in_order_; }
  void AddTo(Digest& digest) const;

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

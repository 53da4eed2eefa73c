#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "server/policy/liveness.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"
#include "worker/core/observed.h"
#include "worker/core/supervisor.h"

namespace dp::sim {

// The state that a daemon leaves to its successor on the node.
struct StateDir {
  std::vector<Incarnation> incarnations;
  std::vector<std::shared_ptr<Process>> left;  // by daemons that were killed; some may still run

  bool AllGone() const;
};

// A dp-worker in virtual time: the real supervisor and its knowledge, with fake processes. Around
// them it does the agent's work: register, heartbeat, watch, report.
class Daemon : public std::enable_shared_from_this<Daemon> {
 public:
  Daemon(Environment& environment, Network& network, ProcessTable& table, Node node,
         std::string name, int slots, std::shared_ptr<StateDir> state_dir);

  void Start() { Register(); }
  // kill -9: the guards of its rank processes notice, and kill them.
  void Crash();
  // SIGSTOP for `duration`; its ranks run on.
  void Freeze(absl::Duration duration);
  bool alive() const { return alive_; }
  Node node() const { return node_; }
  const std::string& name() const { return name_; }
  const std::shared_ptr<StateDir>& state_dir() const { return state_dir_; }

 private:
  void Register();
  core::RegisterWorker Registration() const;
  void NotRegistered(const absl::Status& status);
  void Serve(WorkerId id);
  void Heartbeat();
  // A message sent at `sent` has reached the coordinator, or has found that none runs.
  void HoldLease(absl::Time sent);
  void Watch();
  void Take(const core::Assignment& assignment);
  // The coordinator has given up this incarnation.
  void Abandon();
  void Lapse(const absl::Status& status);

  void Reconcile();
  // Returns whether the action was more than a report.
  bool CarryOut(const worker::Action& action);
  void Start(const worker::AssignedRank& rank);
  void Exited(const worker::RankKey& key, const core::Exit& exit);
  // Something holds on to the slot's GPU for a while.
  void Afflict(int slot);
  void SlotIs(int slot, worker::SlotFitness::State state);
  void ReportSlots();
  void Report(const worker::Report& report);
  void Reported(const worker::Report& report, const absl::Status& status);

  // Runs `event` after `delay` in this incarnation; later if the daemon is frozen then.
  void Later(absl::Duration delay, std::function<void()> event);
  template <typename T>
  void Call(absl::Duration deadline, std::function<void(Service&, Reply<T>)> serve, Reply<T> done);

  Environment& env_;
  Network& network_;
  ProcessTable& table_;
  const Node node_;
  const std::string name_;  // empty: the coordinator chooses
  const int slots_;
  const std::shared_ptr<StateDir> state_dir_;

  bool alive_ = true;
  // For the plant kEndOnTakenName.
  absl::Duration holder_silent_for_;
  int holder_beats_ = 0;
  absl::Time frozen_until_ = absl::InfinitePast();

  // The state of one incarnation.
  Incarnation incarnation_;
  std::vector<Incarnation> earlier_;
  WorkerId id_;
  absl::Time registering_since_;
  core::Liveness::Lease lease_;
  bool serving_ = false;
  Revision version_;
  worker::Desired desired_;
  worker::Observed observed_;
  std::map<worker::RankKey, std::shared_ptr<Process>> processes_;
  std::map<worker::RankKey, int> world_sizes_;
  std::map<worker::RankKey, bool> commands_;
  bool reporting_ = false;
  std::map<int, std::string> unhealthy_;
  uint64_t slot_reports_ = 0;
  absl::Time asked_again_at_ = absl::InfiniteFuture();
};

}  // namespace dp::sim

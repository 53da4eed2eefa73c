#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/network.h"

namespace dp::sim {

class Process;

// Every rank process that ever ran, and the promises about them.
class ProcessTable {
 public:
  explicit ProcessTable(Environment& environment) : env_(environment) {}

  void Began(std::shared_ptr<Process> process);
  // Whether a peer of the rank has died or hangs, so that a collective with it would block.
  bool PeerBroken(const core::RankKey& key) const;
  // The ranks of the same generation that run, but hang.
  std::vector<int> Hung(const core::RankKey& key) const;
  // Whether the rank has ever hung.
  bool HasHung(const core::RankKey& key) const;
  // Whether all running ranks of its generation hang.
  bool Alone(const core::RankKey& key) const;
  // A slot is free only if nothing runs in it. The next generation is placed only if nothing of the
  // last one runs, unless a lost worker could not end it.
  void CheckReleased(const core::Coordinator& coordinator) const;
  // The processes that have not ended.
  std::vector<Process*> alive() const;

  // Records a sum that a rank got from the store's add; each sum may come once.
  void ToldSum(const core::RankKey& rank, int64_t sum);
  size_t sums(JobId job, Generation generation) const;
  // Records an element that a rank took from the store's queue; each element may come once.
  void ToldElement(const core::RankKey& rank, const std::string& element);

 private:
  Environment& env_;
  std::multimap<core::RankKey, std::shared_ptr<Process>> processes_;
  using World = std::pair<JobId, Generation>;

  void CheckOldGeneration(const Process& process, const core::Coordinator& coordinator) const;

  std::map<World, std::set<int64_t>> sums_;
  std::map<World, std::set<std::string>> elements_;
};

// A fake dp-trainer. It joins its world, exchanges addresses and passes a barrier in the store. At
// each step it counts there, takes an element of its queue and works a while. It never ends well
// while a peer is broken. A command only works and exits.
class Process : public std::enable_shared_from_this<Process> {
 public:
  // How often each rank adds to the store's counter.
  static constexpr int kSteps = 3;

  // The daemon incarnation that starts the process.
  struct Parent {
    Node node = 0;
    WorkerId worker;
    Incarnation incarnation;
  };

  Process(Environment& environment, Network& network, ProcessTable& table, const Parent& parent,
          const core::RankKey& key, int world_size, bool command);

  // `on_exit` is called once, unless Vanish comes first.
  void Begin(std::function<void(const core::Exit&)> on_exit);
  // SIGTERM and SIGKILL.
  void Terminate();
  void Kill() { End({core::Exit::How::kSignal, 9}); }
  // Faults: it dies by itself; it stops without dying; it dies with its host or daemon.
  void Crash(const core::Exit& exit) { End(exit); }
  void Hang();
  void Vanish();

  bool alive() const { return alive_; }
  bool hung() const { return hung_; }
  bool command() const { return command_; }
  bool broken() const { return alive_ ? hung_ : !exit_.success() && !LeftAsAsked(); }
  const core::RankKey& key() const { return key_; }
  const Parent& parent() const { return parent_; }
  // The daemon was frozen for a while, and could not look after the process.
  void Neglect() { neglected_ = true; }
  bool neglected() const { return neglected_; }

 private:
  void Join();
  void Watch(Revision since);
  void Exchange();
  void Step(int step);
  void Pop(int step);
  // The next two run beside the steps, on rank 0 as in production.
  void TellFirstStep();
  void SaveCheckpoint(int step);
  void Work(int step);
  void Finish();
  // Saves and exits, as the job's ranks were asked to.
  void Leave(int steps_done);
  bool LeftAsAsked() const;
  // Reports the peers that it waited for until its deadline.
  void Accuse();
  // Waits for its daemon to stop it, but not for ever, as a trainer does whose peers are gone.
  void WaitToBeStopped();
  void Execute(std::vector<StoreOperation> operations,
               std::function<void(const std::vector<StoreResult>&)> then);
  void End(const core::Exit& exit);
  bool runs() const { return alive_ && !hung_; }
  // Runs `event` if the process still runs then.
  void Later(absl::Duration delay, std::function<void()> event);

  Environment& env_;
  Network& network_;
  ProcessTable& table_;
  const Parent parent_;
  const Node node_;
  const core::RankKey key_;
  const int world_size_;
  const bool command_;
  std::function<void(const core::Exit&)> on_exit_;

  bool alive_ = true;
  bool hung_ = false;
  bool working_ = false;  // its world was sealed
  bool met_ = false;      // it knows where its peers are
  bool idle_ = false;     // it waits to be stopped
  bool asked_to_leave_ = false;
  bool neglected_ = false;
  core::Exit exit_;
  uint64_t store_client_;
  uint64_t store_sequence_ = 0;
};

}  // namespace dp::sim

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
  // The ranks of the same generation that run and hang.
  std::vector<int> Hung(const core::RankKey& key) const;
  // Whether the rank has ever hung.
  bool HasHung(const core::RankKey& key) const;
  // Whether no other rank of its job runs, or all that do hang.
  bool Alone(const core::RankKey& key) const;
  // A slot is free only when nothing runs in it, and the next generation is placed only when
  // nothing runs of the one before, but where a lost worker could not end it.
  void CheckReleased(const core::Coordinator& coordinator) const;
  // Those that have not ended.
  std::vector<Process*> alive() const;

  // The sums that the ranks of a job were told by the store's add; each once.
  void ToldSum(const core::RankKey& rank, int64_t sum);
  size_t sums(JobId job, Generation generation) const;
  // The elements that the ranks of a generation took from the store's queue; each once.
  void ToldElement(const core::RankKey& rank, const std::string& element);

 private:
  Environment& env_;
  std::multimap<core::RankKey, std::shared_ptr<Process>> processes_;
  using World = std::pair<JobId, Generation>;

  void CheckOldGeneration(const Process& process, const core::Coordinator& coordinator) const;

  std::map<World, std::set<int64_t>> sums_;
  std::map<World, std::set<std::string>> elements_;
};

// A fake dp-trainer: joins its world, exchanges addresses and passes a barrier in the store,
// counts its steps there, takes an element of its queue at each, works a while and exits. It never
// ends well while a peer is broken. Or a command, which only works and exits.
class Process : public std::enable_shared_from_this<Process> {
 public:
  // Adds to the store's counter that each rank makes.
  static constexpr int kSteps = 3;

  // The life of a daemon that starts it.
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
  // Its daemon stood still for a while, and could not look after it.
  void Neglect() { neglected_ = true; }
  bool neglected() const { return neglected_; }

 private:
  void Join();
  void Watch(Revision since);
  void Exchange();
  void Step(int step);
  void Pop(int step);
  // Beside the steps; rank 0 does, as in production, the next two.
  void TellFirstStep();
  void SaveCheckpoint(int step);
  void Work(int step);
  void Finish();
  // Saves, as the job's ranks are asked to, and ends.
  void Leave(int steps_done);
  bool LeftAsAsked() const;
  // Says which peers it waited for until its deadline.
  void Accuse();
  // What a trainer does whose peers are gone: it waits for its daemon to stop it, but not for ever.
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
  bool met_ = false;      // knows where its peers are
  bool idle_ = false;     // waits to be stopped
  bool asked_to_leave_ = false;
  bool neglected_ = false;
  core::Exit exit_;
  uint64_t store_client_;
  uint64_t store_sequence_ = 0;
};

}  // namespace dp::sim

#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/program/descriptor_limit.h"
#include "worker/agent/processes/guard_protocol.h"
#include "worker/agent/processes/process_runner.h"
#include "worker/agent/processes/rank_cgroups.h"
#include "worker/agent/processes/rank_processes.h"
#include "worker/agent/processes/spawn.h"

namespace dp::worker {

// Runs each rank under its own dp-guard (docs/worker.md), so that no rank outlives this process,
// however it dies. If this process is a subreaper (PR_SET_CHILD_SUBREAPER), it also kills the
// orphans of a killed guard. Orphans are its children in other sessions that are no guards: a rank
// begins a session, and no process can return to this one. With cgroups each rank has its own. The
// cgroup remains even if a guard is killed together with this process. A process that does not die
// keeps its rank from being gone, but delays no other rank. One thread owns all guards; the methods
// may be called from any thread. The destructor kills the running ranks and waits until they are
// gone.
class GuardedRunner final : public ProcessRunner {
 public:
  // Called on the runner's thread; must not block.
  using Sink = std::function<void(ProcessNews)>;

  // Patience with processes that do not die: they hang in the kernel. After it the runner logs
  // them, and the destructor stops waiting.
  static constexpr absl::Duration kSweepPatience = absl::Seconds(10);

  // `descriptors`: the soft limit of each rank's open files. `cgroups`: used by the runner's
  // thread; null: none. `clock`: measures patience. `guard_lock`: inherited by every guard
  // (guard_lock.h); -1: none. `processes`: told of each rank; null: nobody is. The caller owns the
  // last four.
  GuardedRunner(std::string guard_path, Sink sink,
                size_t descriptors = DescriptorLimitFor(kRankDescriptors),
                RankCgroups* cgroups = nullptr, const Clock& clock = Clock::Steady(),
                int guard_lock = -1, RankProcesses* processes = nullptr);
  ~GuardedRunner() override;

  void Start(const RankKey& key, RankCommand command) override;
  void Terminate(const RankKey& key) override;
  void Kill(const RankKey& key) override;

 private:
  struct StartOrder {
    RankKey key;
    RankCommand command;
  };
  struct SignalOrder {
    RankKey key;
    GuardOrder order;
  };
  using Order = std::variant<StartOrder, SignalOrder>;

  struct Guard {
    pid_t pid = 0;
    FileDescriptor socket;
    std::string program;
    std::string directory;     // the rank's; empty: this process's
    bool private_tmp = false;  // the rank has
    std::string user;          // the rank's, for messages: " as ann"; empty: this process's
    std::string worker;        // for messages
    bool rank_started = false;
    bool rank_ended = false;  // or never started
  };

  // A rank whose guard has ended, until nothing is left of the rank.
  struct Remains {
    RankKey key;
    bool orphaned = false;  // its guard was killed and may have left processes
    absl::Time since;
    bool told = false;                // the log says that it does not die
    std::optional<ProcessNews> last;  // sent once nothing is left
  };

  void Push(Order order);
  void Wake();

  // On the thread.
  void Loop();
  void Wait();
  void CarryOut(const StartOrder& order);
  void CarryOut(const SignalOrder& order);
  // Returns false when the guard has ended.
  bool Listen(const RankKey& key, Guard& guard);
  // `text` is empty for most news.
  void Pass(const RankKey& key, Guard& guard, const GuardNews& news, const std::string& text);
  void Bury(const RankKey& key, Guard& guard);
  // Kills the remains of ranks without a guard, and reports each rank of which nothing is left.
  void Sweep();
  // Returns whether there were any.
  bool KillOrphans();
  bool NothingLeftOf(Remains& remains, bool orphans);
  void SweepToTheEnd();
  absl::StatusOr<SpawnedGuard> Spawn(const StartOrder& order);

  const std::string guard_path_;
  const size_t descriptors_;
  const int guard_lock_;
  RankCgroups* const cgroups_;
  RankProcesses* const processes_;
  const Clock& clock_;
  const Sink sink_;
  FileDescriptor wake_;
  BoundedQueue<Order> orders_;

  // Owned by the thread.
  absl::btree_map<RankKey, Guard> guards_;
  std::vector<Remains> remains_;
  absl::Duration sweep_again_;  // while there are remains

  std::jthread thread_;
};

}  // namespace dp::worker

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
#include "base/descriptor_limit.h"
#include "base/file_descriptor.h"
#include "worker/agent/guard_protocol.h"
#include "worker/agent/process_runner.h"
#include "worker/agent/rank_cgroups.h"
#include "worker/agent/spawn.h"

namespace dp::worker {

// Runs each rank under a dp-guard of its own (docs/worker.md), so that no rank outlives this
// process, however it ends. Where this process is a subreaper (PR_SET_CHILD_SUBREAPER), it also
// ends what a killed guard leaves behind, and takes every child in another session than its own
// that is no guard for that: a rank begins a session, and nothing can get back into this one. With
// cgroups each rank has one of its own, which outlives even a guard that is killed together with
// this process. What does not die keeps its rank from being gone, and no other rank waiting. A
// thread of its own owns all guards; the methods may be called from any thread. Destroying it kills
// what still runs and waits until it is gone.
class GuardedRunner final : public ProcessRunner {
 public:
  // Called on the runner's thread; must not block.
  using Sink = std::function<void(ProcessNews)>;

  // For what does not die: what takes longer hangs in the kernel, which is told; at the end of this
  // process it is waited for no longer.
  static constexpr absl::Duration kSweepPatience = absl::Seconds(10);

  // Each rank may have so many `descriptors` open, its soft limit. `cgroups` is the owner's and
  // used by the runner's thread; null: none. `clock` is for patience. `guard_lock` is the owner's,
  // too, and inherited by every guard (guard_lock.h); -1: none.
  GuardedRunner(std::string guard_path, Sink sink,
                size_t descriptors = DescriptorLimitFor(kRankDescriptors),
                RankCgroups* cgroups = nullptr, const Clock& clock = Clock::Steady(),
                int guard_lock = -1);
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
    bool rank_started = false;
    bool rank_ended = false;  // or never started
  };

  // A rank whose guard has ended, until nothing is left of it.
  struct Remains {
    RankKey key;
    bool orphaned = false;  // its guard was killed, and may have left processes behind
    absl::Time since;
    bool told = false;                // that it takes its time
    std::optional<ProcessNews> last;  // to be told in the end
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
  void Pass(const RankKey& key, Guard& guard, const GuardNews& news);
  void Bury(const RankKey& key, Guard& guard);
  // Kills what is left of ranks without a guard, and tells of which nothing is.
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

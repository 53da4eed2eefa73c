#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "dp/distributed.h"
#include "worker/engine/collectives/group.h"
#include "worker/library/memory/group_memory.h"
#include "worker/library/nccl/nccl_use.h"
#include "worker/library/open_store.h"
#include "worker/library/spawn/fork_count.h"

namespace dp::library {

// A rank's membership of a group, from joining until it leaves: what a ProcessGroup is a handle of.
// Throws DistError. Calls come from one thread at a time; Abort may come from any.
class JoinedGroup {
 public:
  struct Options {
    std::string name;
    std::string backend;  // a result of BackendNamed
    int rank = 0;
    int size = 1;
    absl::Duration timeout;
    // For people and for `src`: the number of each rank in the default group; empty: the same.
    std::vector<int> global_ranks;
    NcclPlace nccl;
  };

  // Joins the ranks that meet in `store`, which have the same name. Blocks until all have joined.
  static std::shared_ptr<JoinedGroup> Join(const std::shared_ptr<OpenStore>& store,
                                           Options options);
  // In a fork, keeps all that belongs to the process that joined.
  ~JoinedGroup();
  // Connects ranks that agree on the options, through keys of this group alone. Blocks until all
  // are connected, or one has failed.
  JoinedGroup(std::shared_ptr<OpenStore> keys, Options options, absl::Duration connect_timeout);

  const Options& options() const { return options_; }
  // "shm", "hierarchical", "gloo", "nccl", "mpi" or a registered one.
  const std::string& backend() const { return backend_; }
  // Only with backend nccl.
  const std::optional<NcclUse>& nccl() const { return nccl_; }
  size_t size() const { return static_cast<size_t>(options_.size); }
  bool left() const { return group() == nullptr; }
  // In a fork of the process that joined. There every call throws, but Abort and Leave, which do
  // nothing.
  bool in_fork() const { return ForkCount() != joined_at_; }
  // Throws in such a fork: for calls that use the group's memory, which the fork shares.
  void CheckProcess() const;
  // The group, for calls that use it at once. Throws if the rank has left it.
  engine::Group& here() const;

  // Begins an operation, named as the caller's verb. With backend nccl, the group's device becomes
  // that of the calling thread.
  using Begin = std::function<std::unique_ptr<engine::Work>(engine::Group& group)>;
  std::unique_ptr<engine::Work> Start(const Begin& begin);
  // Zeros at first, in memory that the group owns. It stays as long as HoldMemory's result does,
  // also once the rank has left.
  absl::Span<uint8_t> Allocate(size_t bytes);
  std::shared_ptr<const void> HoldMemory() const;
  // The memory of the models that its ranks train.
  GroupMemory& memory() { return *memory_; }
  // The rank in this group of a rank of the default group.
  int RankOf(int global_rank) const;
  // Blocks until every rank has called it. The time limit is positive, also that of MakeGroup.
  void MonitoredBarrier(absl::Duration timeout);
  // A group of `ranks` of this one, which all ranks of this one make together. Null on the ranks
  // that are not in it. An empty backend is this group's.
  std::shared_ptr<JoinedGroup> MakeGroup(const std::vector<int>& ranks, absl::string_view backend,
                                         absl::Duration timeout);
  void Abort(absl::string_view why);
  // Blocks until every peer leaves or is gone. Errors of peers do not matter any more.
  void Leave();
  // Begins the messages of errors: "group 'default', rank 1".
  std::string Context() const;

 private:
  void CheckHere() const;
  void CheckRanks(const std::vector<int>& ranks) const;
  std::shared_ptr<engine::Group> group() const DP_EXCLUDES(mu_);
  std::optional<std::string> why_aborted() const DP_EXCLUDES(mu_);

  using GpuMemories = std::vector<GpuMemory>;

  const uint64_t joined_at_ = ForkCount();
  const Options options_;
  std::shared_ptr<OpenStore> store_;  // closed once the rank has left
  std::string backend_;
  std::optional<NcclUse> nccl_;
  std::unique_ptr<GroupMemory> memory_;
  std::shared_ptr<GpuMemories> gpu_memory_ = std::make_shared<GpuMemories>();
  int64_t monitored_barriers_ = 0;
  int64_t groups_made_ = 0;

  mutable Mutex mu_;
  std::shared_ptr<engine::Group> group_ DP_GUARDED_BY(mu_);  // null once the rank has left
  std::optional<std::string> why_aborted_ DP_GUARDED_BY(mu_);
};

// Throws kInvalidArgument unless the time limit of `call` is positive.
void CheckTimeout(absl::Duration timeout, absl::string_view call);

// The membership behind a handle. Throws for an empty one.
JoinedGroup& MemberOf(const distributed::ProcessGroup& group);

// The group that an option names; without one the default group. Throws for an empty handle.
distributed::ProcessGroup GroupOrDefault(const std::optional<distributed::ProcessGroup>& given);

}  // namespace dp::library

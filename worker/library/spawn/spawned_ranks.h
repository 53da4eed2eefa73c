#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "worker/library/spawn/rank_process.h"

namespace dp::library {

// The processes of one call of spawn. Only the process that made it acts on them, and no copy of it
// in a child does. Not thread-safe.
class SpawnedRanks {
 public:
  // Forks all ranks. Throws DistError, after it has ended those that run already.
  SpawnedRanks(const std::function<void(int)>& fn, int nprocs,
               const distributed::SpawnOptions& options);
  ~SpawnedRanks();

  // As SpawnContext::join.
  bool Join(std::optional<std::chrono::milliseconds> timeout);
  const std::vector<int>& pids() const { return pids_; }

 private:
  using Time = std::chrono::steady_clock::time_point;

  void Start(const std::function<void(int)>& fn, int nprocs,
             const distributed::SpawnOptions& options);
  // Whether the failures so far have a cause that no later one can explain.
  bool IsExplained(Time now) const;
  // Takes the ends of ranks. Waits for one, but not past `until`.
  void TakeEnds(std::optional<Time> until);
  void Signal(int signal) const;
  // Ends all that still run.
  void End();

  const int owner_;  // the process
  const std::chrono::milliseconds grace_;
  std::optional<ReservedPort> port_;
  std::vector<RankProcess> running_;
  std::vector<RankEnd> ends_;
  std::vector<int> pids_;
  Time failed_since_;
  std::optional<distributed::SpawnError> failure_;
};

}  // namespace dp::library

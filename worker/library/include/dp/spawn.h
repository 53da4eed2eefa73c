#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dp/errors.h"
#include "dp/namespace.h"

// One function per rank, in processes of this host: docs/library.md, Start ranks from a program.

namespace dp::library {
class SpawnedRanks;
}

namespace dp::distributed {

struct SpawnOptions {
  // Whether spawn waits for the ranks; else the caller joins them by the SpawnContext.
  bool join = true;
  // How long ranks have to end after SIGTERM, before SIGKILL.
  std::chrono::milliseconds grace = std::chrono::seconds(5);
  // For ranks on several hosts: the number of this host's first rank, and the ranks of all hosts.
  int first_rank = 0;
  std::optional<int> world_size = std::nullopt;
  // Where the ranks meet. Give both, or none: then it is a free port of 127.0.0.1.
  std::string master_addr = {};
  uint16_t master_port = 0;
  // Forks although this process has other threads. A child has only the thread that calls spawn.
  // Locks that other threads hold stay locked there, and thread pools have no threads.
  bool allow_threads = false;
};

// A rank that threw, exited with an error, or was killed. Its kind is kProgramFailed.
class SpawnError : public DistError {
 public:
  SpawnError(const std::string& message, int rank, int pid, std::optional<int> exit_code,
             std::optional<int> signal)
      : DistError(ErrorKind::kProgramFailed, message),
        rank_(rank),
        pid_(pid),
        exit_code_(exit_code),
        signal_(signal) {}

  int rank() const noexcept { return rank_; }
  int pid() const noexcept { return pid_; }
  // 1 after an exception. None if a signal killed the rank.
  std::optional<int> exit_code() const noexcept { return exit_code_; }
  std::optional<int> signal() const noexcept { return signal_; }

 private:
  int rank_;
  int pid_;
  std::optional<int> exit_code_;
  std::optional<int> signal_;
};

// The ranks that a call of spawn started. The destructor ends those that still run: SIGTERM, then
// SIGKILL after the grace time. Used by one thread at a time. Calls throw kWrongState once it was
// moved from.
class SpawnContext {
 public:
  explicit SpawnContext(std::unique_ptr<library::SpawnedRanks> ranks);
  SpawnContext(SpawnContext&&) noexcept;
  SpawnContext& operator=(SpawnContext&&) noexcept;
  ~SpawnContext();

  // Waits until all ranks have ended, or `timeout` has passed, and returns whether all have ended.
  // The first failure ends the other ranks and is thrown, also by later calls. Errors: SpawnError.
  bool join(std::optional<std::chrono::milliseconds> timeout = std::nullopt);
  // The processes in rank order, also those that have ended.
  std::vector<int> pids() const;

 private:
  std::unique_ptr<library::SpawnedRanks> ranks_;
};

// Forks `nprocs` children. Each runs `fn(rank)` and ends. Their variables RANK, LOCAL_RANK,
// WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT let init_process_group() join them.
// With `join` it returns when all have ended. The kernel kills the children when the thread that
// called spawn ends, and thus when this process dies.
// Errors: SpawnError. kInvalidArgument names the option. kWrongState this process has other threads
// or a default group, or ignores SIGCHLD. kLimit more than 100,000 ranks, of which none then
// starts; no more processes or descriptors.
SpawnContext spawn(const std::function<void(int rank)>& fn, int nprocs,
                   const SpawnOptions& options = {});

}  // namespace dp::distributed

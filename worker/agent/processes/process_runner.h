#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "worker/agent/accounts/account.h"
#include "worker/agent/sandbox/mount_plan.h"
#include "worker/core/rank.h"

namespace dp::worker {

// The command of a rank.
struct RankCommand {
  std::vector<std::string> argv;         // argv[0] is the program's path
  std::vector<std::string> environment;  // complete, as NAME=value
  std::string stdout_path;               // appended to
  std::string stderr_path;
  std::string exit_path = {};          // for the record of its exit (exit_record.h); empty: none
  std::string working_dir = {};        // entered as the rank's user; empty: the daemon's
  std::optional<Account> run_as = {};  // the rank's user; none: the daemon's
  int64_t memory_bytes = 0;            // limit for all its processes together; 0: no limit
  bool new_privileges = false;         // whether setuid programs give it their privileges
  bool no_core = false;                // it has secrets: the kernel writes no core dump
  RankMounts mounts = {};
  std::vector<std::string> allowed_programs = {};  // patterns (program_rule.h); empty: every one
  std::string worker = {};                         // for messages
};

// The fate of a rank's processes, in this order: started or not started; exited; gone. A rank that
// was not started has no further news.
struct ProcessStarted {
  int64_t pid = 0;
};
struct ProcessNotStarted {
  std::string error;
};
struct ProcessExited {
  Exit exit;
  // Whether the kernel killed any of its processes because memory ran out; absent: unknown.
  std::optional<bool> oom = {};
};
// Nothing is left of the processes that the rank started.
struct ProcessGone {};

struct ProcessNews {
  RankKey key;
  std::variant<ProcessStarted, ProcessNotStarted, ProcessExited, ProcessGone> what;
};

// Runs ranks as processes. The methods return at once and never fail. Implementations report the
// fate of ranks as ProcessNews to a sink. Orders about unknown ranks are ignored. Only the agent's
// thread calls the methods; the sink is called on another one.
class ProcessRunner {
 public:
  virtual ~ProcessRunner() = default;
  virtual void Start(const RankKey& key, RankCommand command) = 0;
  // Sends SIGTERM to the rank's own process, which must stop its own children.
  virtual void Terminate(const RankKey& key) = 0;
  // Sends SIGKILL to the rank's process and every descendant.
  virtual void Kill(const RankKey& key) = 0;
};

}  // namespace dp::worker

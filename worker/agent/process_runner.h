#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "worker/core/rank.h"

namespace dp::worker {

// What to run for a rank.
struct RankCommand {
  std::vector<std::string> argv;         // argv[0] is the program's path
  std::vector<std::string> environment;  // all of it, NAME=value
  std::string stdout_path;               // appended to
  std::string stderr_path;
  std::string exit_path = {};    // for a record of its exit (exit_record.h); empty: none
  std::string working_dir = {};  // empty: the daemon's
  int64_t memory_bytes = 0;      // that it may have with all that it starts; 0: no limit
};

// What became of a rank's processes, in this order: started or not started; exited; gone. A rank
// that was not started has no further news.
struct ProcessStarted {
  int64_t pid = 0;
};
struct ProcessNotStarted {
  std::string error;
};
struct ProcessExited {
  Exit exit;
  // Whether the kernel killed any of its processes for want of memory; absent: not known.
  std::optional<bool> oom = {};
};
// Nothing that the rank started is left.
struct ProcessGone {};

struct ProcessNews {
  RankKey key;
  std::variant<ProcessStarted, ProcessNotStarted, ProcessExited, ProcessGone> what;
};

// Runs ranks as processes. The methods return at once and never fail: what becomes of a rank is
// told as ProcessNews, to the sink that an implementation was made with. About ranks that it does
// not run, an order is ignored. Called by the agent's thread alone; the sink is called on another.
class ProcessRunner {
 public:
  virtual ~ProcessRunner() = default;
  virtual void Start(const RankKey& key, RankCommand command) = 0;
  // SIGTERM to the rank's own process; what it has started is its own business.
  virtual void Terminate(const RankKey& key) = 0;
  // SIGKILL to the rank's process and every descendant.
  virtual void Kill(const RankKey& key) = 0;
};

}  // namespace dp::worker

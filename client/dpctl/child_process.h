#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dp::ctl {

// A program that lives no longer than this process: should we die without ending it, the kernel
// kills it. It has its own process group, so that a Ctrl-C at the terminal reaches us alone. Not
// thread-safe.
class ChildProcess {
 public:
  // Starts argv[0], a path, with its standard error in the file `errors`.
  // Errors: Unavailable what could not be started, and why.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& argv,
                                            const std::string& errors);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  // SIGKILL, unless it has been stopped.
  ~ChildProcess();

  // The first line of its standard output.
  // Errors: Unavailable it ended first; DeadlineExceeded.
  absl::StatusOr<std::string> FirstLine(absl::Duration timeout);

  // SIGTERM, then SIGKILL after `grace`; returns when it is gone.
  void Stop(absl::Duration grace);

 private:
  ChildProcess(pid_t pid, int pidfd, int out) : pid_(pid), pidfd_(pidfd), out_(out) {}
  // Kills it where it still runs, and reaps it.
  void Reap(bool kill_first);

  pid_t pid_;  // 0: stopped, or moved away
  int pidfd_;
  int out_;  // the read end of its standard output, open while it lives
};

}  // namespace dp::ctl

#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace dp::ctl {

// A program that lives no longer than this process: should we die without ending it, the kernel
// kills it. It has its own process group, so that a Ctrl-C at the terminal reaches us alone. Not
// thread-safe.
class ChildProcess {
 public:
  // Starts argv[0], a path, with its standard error in the file `errors`.
  // Errors: Internal what could not be started, and why.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& argv,
                                            const std::string& errors,
                                            const Clock& clock = Clock::System());
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  // SIGKILL, unless it has been stopped.
  ~ChildProcess();

  // The first line of its standard output. Gives up as soon as the descriptor `stop` can be read;
  // -1 for none. Errors: Aborted it ended first; DeadlineExceeded; Cancelled by `stop`.
  absl::StatusOr<std::string> FirstLine(absl::Duration timeout, int stop = -1);

  // Can be read once it has ended; below 0 where the kernel has none. Valid until Stop.
  int pidfd() const { return pidfd_; }
  // "was ended by signal 9". Precondition: it has ended, and was not stopped.
  std::string HowItEnded() const;

  // SIGTERM, then SIGKILL after `grace`; returns when it is gone.
  void Stop(absl::Duration grace);

 private:
  ChildProcess(pid_t pid, int pidfd, int out, const Clock& clock)
      : pid_(pid), pidfd_(pidfd), out_(out), clock_(clock) {}
  // Kills it where it still runs, and reaps it.
  void Reap(bool kill_first);

  pid_t pid_;  // 0: stopped, or moved away
  int pidfd_;
  int out_;  // the read end of its standard output, open while it lives
  const Clock& clock_;
};

}  // namespace dp::ctl

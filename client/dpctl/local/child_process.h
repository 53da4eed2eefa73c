#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace dp::ctl {

// A program of dp that lives no longer than this process: if dpctl dies without ending it, the
// kernel kills it. It has its own process group, so that a Ctrl-C at the terminal reaches dpctl
// alone. It has dpctl's variables without those of dp, which are meant for another cluster or
// describe a rank's place; those about this machine stay. Not thread-safe.
class ChildProcess {
 public:
  // Starts argv[0], a path, and appends its standard error to the file `errors`.
  // Errors: Internal what could not be started, and why.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& argv,
                                            const std::string& errors,
                                            const Clock& clock = Clock::System());
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  // Sends SIGKILL, unless the program was stopped.
  ~ChildProcess();

  // Reads the first line of its standard output. Gives up as soon as the descriptor `stop` is
  // readable; -1 for none. Errors: Aborted the program ended first; DeadlineExceeded, after which
  // another call goes on; Cancelled by `stop`.
  absl::StatusOr<std::string> FirstLine(absl::Duration timeout, int stop = -1);

  // Reads its standard output to the end, which comes when the program ends. Not after FirstLine.
  // Errors: Internal it cannot be read.
  absl::StatusOr<std::string> AllOutput();
  // Waits for the end. Returns how it ended, as HowItEnded.
  std::string AwaitEnd() const;

  // Readable once the program has ended; below 0 if the kernel has no pidfd. Valid until Stop.
  int pidfd() const { return pidfd_; }
  // "was ended by signal 9". Precondition: the program has ended, and was not stopped.
  std::string HowItEnded() const;

  // Sends SIGTERM, then SIGKILL after `grace`; returns when the program is gone.
  void Stop(absl::Duration grace);

 private:
  ChildProcess(pid_t pid, int pidfd, int out, const Clock& clock)
      : pid_(pid), pidfd_(pidfd), out_(out), clock_(clock) {}
  // Reaps the program, after SIGKILL if `kill_first`.
  void Reap(bool kill_first);

  pid_t pid_;  // 0: stopped, or moved away
  int pidfd_;
  int out_;           // the read end of its standard output, open while this object lives
  std::string line_;  // the part of the first line that was read
  const Clock& clock_;
};

}  // namespace dp::ctl

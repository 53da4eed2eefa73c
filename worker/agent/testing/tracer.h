#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"

namespace dp::worker {

// Traces a process from a process of its own. The parent of the traced process does not learn of
// its death until the tracer lets go. The process thus seems to hang in an uninterruptible system
// call.
class Tracer {
 public:
  explicit Tracer(pid_t traced) {
    int said[2];
    DP_CHECK(pipe(said) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      const char attached = ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0 ? 'y' : 'n';
      (void)!write(said[1], &attached, 1);
      for (;;) pause();
    }
    char attached = 'n';
    (void)!read(said[0], &attached, 1);
    attached_ = attached == 'y';
    close(said[0]);
    close(said[1]);
  }
  ~Tracer() { LetGo(); }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  bool attached() const { return attached_; }
  void LetGo() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
  bool attached_ = false;
};

}  // namespace dp::worker

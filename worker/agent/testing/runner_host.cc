// runner_host GUARD PROGRAM ARGUMENT...
//
// Stands for a daemon that is killed: runs one rank under a guard, and waits for ever.

#include <sys/prctl.h>
#include <unistd.h>

#include "worker/agent/guarded_runner.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  dp::worker::GuardedRunner runner(argv[1], [](const dp::worker::ProcessNews&) {});
  runner.Start({dp::JobId(1), dp::Generation(1), 0}, {.argv = {argv + 2, argv + argc},
                                                      .environment = {},
                                                      .stdout_path = "/dev/null",
                                                      .stderr_path = "/dev/null"});
  for (;;) pause();
}

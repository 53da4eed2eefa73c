// runner_host GUARD CGROUP PROGRAM ARGUMENT...
//
// Stands for a daemon that is killed: runs one rank under a guard and waits for ever. CGROUP is a
// directory of cgroup v2, below which the rank gets its cgroup; "-": none.

#include <sys/prctl.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "worker/agent/processes/guarded_runner.h"

int main(int argc, char** argv) {
  using dp::worker::RankCgroups;
  if (argc < 4) return 2;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::unique_ptr<RankCgroups> cgroups;
  if (const std::string parent = argv[2]; parent != "-") {
    auto opened = RankCgroups::Open({{dp::worker::kCgroup2, parent}}, RankCgroups::Claim::kAny);
    if (!opened.ok()) return 1;
    cgroups = *std::move(opened);
  }
  dp::worker::GuardedRunner runner(
      argv[1], [](const dp::worker::ProcessNews&) {}, /*descriptors=*/1024, cgroups.get());
  runner.Start({dp::JobId(1), dp::Generation(1), 0}, {.argv = {argv + 3, argv + argc},
                                                      .environment = {},
                                                      .stdout_path = "/dev/null",
                                                      .stderr_path = "/dev/null"});
  for (;;) pause();
}

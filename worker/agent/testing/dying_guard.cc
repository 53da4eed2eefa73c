// dying_guard DESCRIPTORS -- FIFO
//
// Stands for a guard that is killed after its rank has exited and before the rank's other processes
// have. It reports that the rank was started and exited with 0, and dies of SIGKILL at the next
// order. The leftover process is in a session of its own, holds FIFO open, and has written its pid
// to it.
//
// dying_guard DESCRIPTORS -- FIFO unread
//
// Stands for a guard whose rank exits with 33 while an order waits that the guard does not read.
//
// dying_guard DESCRIPTORS -- FIFO unconfined
//
// Stands for a guard that cannot move its rank to its cgroup.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "worker/agent/processes/guard_protocol.h"

namespace {

using dp::worker::GuardNews;
using dp::worker::kGuardSocket;

[[noreturn]] void BeLeftBehind(const char* path) {
  setsid();
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  close(kGuardSocket);
  dprintf(open(path, O_WRONLY), "%d\n", getpid());
  for (;;) pause();
}

void Tell(GuardNews::What what, int number) {
  const GuardNews news{what, number};
  (void)!send(kGuardSocket, &news, sizeof(news), 0);
}

[[noreturn]] void ExitBesideAnOrder() {
  Tell(GuardNews::What::kStarted, getpid());
  char order = 0;
  (void)!recv(kGuardSocket, &order, sizeof(order), MSG_PEEK);
  Tell(GuardNews::What::kExited, 33);
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[4], "unconfined") == 0) {
    Tell(GuardNews::What::kNotConfined, EACCES);
    return 0;
  }
  if (argc == 5) ExitBesideAnOrder();
  if (argc != 4) return 2;
  if (fork() == 0) BeLeftBehind(argv[3]);
  Tell(GuardNews::What::kStarted, getpid());
  Tell(GuardNews::What::kExited, 0);
  char order = 0;
  (void)!recv(kGuardSocket, &order, sizeof(order), 0);
  raise(SIGKILL);
}

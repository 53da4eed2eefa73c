#pragma once

#include <cstdint>

// What a daemon and a guard (guard_main.cc) say to each other over one SOCK_SEQPACKET socket: a
// record a message, in memory order, since both are of one build on one host. The daemon closing
// its end, or dying, orders a kill; the guard closing its end says that the process tree is gone.

namespace dp::worker {

// The guard finds its socket here, below it the rank's standard streams.
inline constexpr int kGuardSocket = 3;
// Here, where there is one, the guard keeps the lock that says that it runs (guard_lock.h).
inline constexpr int kGuardLockFd = 4;

// Before the program among the guard's arguments, for each cgroup that the rank is to join. All
// that is in the first one is to be killed with the rank.
inline constexpr char kGuardCgroup[] = "--cgroup=";
// Likewise, at most once: where the guard records how the rank ended (exit_record.h).
inline constexpr char kGuardExitFile[] = "--exit-file=";

enum class GuardOrder : int32_t {
  kTerminate = 1,  // SIGTERM to the rank
  kKill = 2,       // SIGKILL to the rank and every descendant
};

struct GuardNews {
  enum class What : int32_t {
    kStarted = 1,      // number: pid
    kNotStarted = 2,   // number: errno of exec
    kExited = 3,       // number: exit code
    kSignalled = 4,    // number: signal
    kNotConfined = 5,  // number: errno of joining the rank's cgroup; it was not started
  };
  What what;
  int32_t number;
};

}  // namespace dp::worker

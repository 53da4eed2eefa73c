#pragma once

#include <cstddef>
#include <cstdint>

// The messages between a daemon and a guard (guard_main.cc) on one SOCK_SEQPACKET socket. Each
// message is one record in memory order: both sides are of one build on one host. By closing its
// end, or by dying, the daemon orders a kill. By closing its end, the guard reports that the
// process tree is gone.

namespace dp::worker {

// The guard's socket. The descriptors below are the rank's standard streams.
inline constexpr int kGuardSocket = 3;
// The lock that shows that the guard runs (guard_lock.h), if there is one.
inline constexpr int kGuardLockFd = 4;

// Options before the program in the guard's arguments. One for each cgroup that the rank joins; the
// guard kills every process in the first one with the rank.
inline constexpr char kGuardCgroup[] = "--cgroup=";
// At most once: the file in which the guard records how the rank exited (exit_record.h).
inline constexpr char kGuardExitFile[] = "--exit-file=";
// At most once: the user and groups that the rank runs as, as "UID:GID:GROUP,GROUP"; else the
// guard's.
inline constexpr char kGuardUser[] = "--user=";
// At most once: the rank's working directory, entered as that user; else the guard's.
inline constexpr char kGuardDirectory[] = "--directory=";
// The rank may get privileges by executing setuid programs.
inline constexpr char kGuardNewPrivileges[] = "--new-privileges";
// The rank has secrets in its environment: the kernel writes no core dump of it.
inline constexpr char kGuardNoCore[] = "--no-core";
// The rank's view of the host's files (RankMounts). Each path of the last two has its own option.
inline constexpr char kGuardPrivateTmp[] = "--private-tmp=";
inline constexpr char kGuardReadOnlyRoot[] = "--read-only-root";
inline constexpr char kGuardWritable[] = "--writable=";
inline constexpr char kGuardShown[] = "--shown=";
// Alone in place of a program: makes these mounts, reports the first fault on standard error, and
// exits with 0 or 1.
inline constexpr char kGuardTryMounts[] = "--try-mounts";
// For each pattern of programs that the rank may be; without any, every program.
inline constexpr char kGuardAllowProgram[] = "--allow-program=";
// Ends the options. The rank's program and arguments follow, which may look like options.
inline constexpr char kGuardOptionsEnd[] = "--";

// A job chooses variables of its ranks, and the guard may be root. The daemon therefore sets this
// bit in the first byte of each variable, and the guard clears it for the rank. The guard's loader
// and libraries know no such names, and do not obey LD_PRELOAD and the like.
inline constexpr unsigned char kGuardVariableBit = 0x80;

enum class GuardOrder : int32_t {
  kTerminate = 1,  // SIGTERM to the rank
  kKill = 2,       // SIGKILL to the rank and every descendant
};

struct GuardNews {
  enum class What : int32_t {
    kStarted = 1,     // number: pid
    kNotStarted = 2,  // number: errno of exec
    kExited = 3,      // number: exit code
    kSignalled = 4,   // number: signal
    // The rank was not started. number: errno
    kNotConfined = 5,  // of joining its cgroup
    kNotUser = 6,      // of becoming its user
    kNotInDir = 7,     // of entering its working directory
    // These two have a text.
    kNotMounted = 8,  // of the mount that the text names
    kNotAllowed = 9,  // of no call; the text is the program's path without links
  };
  What what;
  int32_t number;
};

// A message, whose text ends where the message ends. A longer text is cut.
inline constexpr size_t kGuardTextMax = 1024;
struct GuardMessage {
  GuardNews news;
  char text[kGuardTextMax];
};

}  // namespace dp::worker

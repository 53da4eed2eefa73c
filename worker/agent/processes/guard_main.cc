// dp-guard DESCRIPTORS [--cgroup=DIRECTORY...] [--exit-file=PATH] [--user=UID:GID:GROUPS]
//          [--directory=PATH] [--new-privileges] [--no-core] [--private-tmp=DIRECTORY]
//          [--read-only-root] [--writable=PATH...] [--shown=PATH...] [--allow-program=PATTERN...]
//          -- PROGRAM [ARGUMENT...]
//
// Stands between a daemon and one rank. The guard is the rank's parent and the subreaper of all its
// descendants, so no process of the rank escapes it, whatever its session. The guard kills the tree
// when the rank exits, when the daemon orders it, or when the daemon is dead. It exits once the
// tree is gone. If the rank has a cgroup, the guard empties that, too; the guard itself stays
// outside. The guard also stays the daemon's user, so a rank of another user cannot signal or trace
// it. DESCRIPTORS is the rank's soft limit of open files. The guard reports the rank's exit to the
// daemon, and records it in PATH for the next daemon unless the guard killed the rank. One thread,
// no libraries, all signals blocked: the guard does not share a daemon's failures.

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/agent/processes/cgroup.h"
#include "worker/agent/processes/exit_record.h"
#include "worker/agent/processes/guard_protocol.h"
#include "worker/agent/processes/oom_kills.h"
#include "worker/agent/processes/process_tree.h"
#include "worker/agent/sandbox/mounts.h"
#include "worker/agent/sandbox/program_rule.h"

namespace dp::worker {
namespace {

// How often the guard searches a dying tree for new processes.
constexpr int kSearchAgainMs = 10;

// The user of a rank, whom the daemon has looked up.
struct User {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};

struct Task {
  rlim_t descriptors = 0;
  std::vector<std::string> cgroups;  // for the rank to join; the guard empties the first one
  std::string exit_file;             // empty: no record
  std::optional<User> user;          // none: the guard's
  std::string directory;             // empty: the guard's
  bool new_privileges = false;
  bool no_core = false;
  RankMounts mounts;
  bool try_mounts = false;                    // in place of a command
  std::vector<std::string> allowed_programs;  // patterns; empty: every program
  char** command = nullptr;
};

class Guard {
 public:
  explicit Guard(Task task) : task_(std::move(task)) {
    if (!task_.cgroups.empty()) cgroup_.emplace(task_.cgroups.front());
  }

  // Returns once no descendant and no process in the cgroup is left. False if the guard itself
  // cannot work.
  bool Run() {
    if (!Prepare() || !Fork()) return false;
    while (Reap() || (cgroup_ && cgroup_->Populated())) {
      if (killing_) KillAll();
      Wait();
    }
    return true;
  }

 private:
  bool Prepare() {
    if (task_.no_core) ForbidCore();
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    // Fails if the guard got no lock.
    (void)fcntl(kGuardLockFd, F_SETFD, FD_CLOEXEC);
    // The daemon has opened the rank's output without waiting for others.
    for (const int output : {STDOUT_FILENO, STDERR_FILENO}) (void)fcntl(output, F_SETFL, O_APPEND);
    child_ended_ = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    return child_ended_ >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 &&
           fcntl(kGuardSocket, F_SETFD, FD_CLOEXEC) == 0;
  }

  // For the guard, whose environment is the rank's, and for the rank. The kernel ignores a limit of
  // 0 where dumps go to a program, and takes 1 for none.
  static void ForbidCore() {
    rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) != 0) return;
    limit.rlim_max = std::min<rlim_t>(limit.rlim_max, 1);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
  }

  bool Fork() {
    int outcome[2];
    if (pipe2(outcome, O_CLOEXEC) != 0) return false;
    const pid_t guard = getpid();
    rank_ = fork();
    if (rank_ < 0) return false;
    if (rank_ == 0) Exec(guard, outcome[1]);
    close(outcome[1]);
    exec_outcome_ = outcome[0];
    return true;
  }

  // A rank may have left its cgroup, and another process may have joined it: both are killed.
  void KillAll() {
    killed_ = true;
    if (cgroup_) KillCgroup(task_.cgroups.front());
    KillDescendants(getpid());
  }

  // Runs in the child. The kernel closes `outcome` when exec succeeds.
  [[noreturn]] void Exec(pid_t guard, int outcome) {
    setsid();
    const GuardNews::What what = Become(guard);
    GuardMessage message{{what, errno}, {}};
    const size_t size = std::min(why_not_.size(), kGuardTextMax);
    std::memcpy(message.text, why_not_.data(), size);
    // If this fails, the exit code still shows the failure.
    (void)!write(outcome, &message, sizeof(message.news) + size);
    _exit(127);
  }

  // Returns only if the rank cannot be started: what failed, with errno.
  GuardNews::What Become(pid_t guard) {
    LimitDescriptors();
    if (!JoinCgroups()) return GuardNews::What::kNotConfined;
    if (!ConfineFiles()) return GuardNews::What::kNotMounted;
    if (!BecomeUser()) return GuardNews::What::kNotUser;
    // If the guard itself is killed, the rank dies with it. A change of user clears this.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard) _exit(127);
    // A setuid program would clear the line above, and a daemon that is not root could not kill it.
    if (!task_.new_privileges) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (!task_.directory.empty() && chdir(task_.directory.c_str()) != 0) {
      return GuardNews::What::kNotInDir;
    }
    TakeVariables();
    return task_.allowed_programs.empty() ? Execute() : ExecuteIfAllowed();
  }

  GuardNews::What Execute() {
    execvp(task_.command[0], task_.command);
    return GuardNews::What::kNotStarted;
  }

  // Executes the very path that was checked: no search comes after the check.
  GuardNews::What ExecuteIfAllowed() {
    const std::string program = FindProgram(task_.command[0]);
    if (program.empty()) return GuardNews::What::kNotStarted;
    if (!IsAllowedProgram(task_.allowed_programs, program)) {
      why_not_ = program;
      return GuardNews::What::kNotAllowed;
    }
    execv(program.c_str(), task_.command);
    return GuardNews::What::kNotStarted;
  }

  bool ConfineFiles() {
    const auto fault = Confine(task_.mounts, task_.user.has_value());
    if (!fault) return true;
    why_not_ = fault->step;
    errno = fault->error;
    return false;
  }

  // A daemon of an earlier release leaves the bit out.
  static void TakeVariables() {
    for (char** each = environ; *each != nullptr; ++each) {
      **each = static_cast<char>(**each & ~kGuardVariableBit);
    }
  }

  // Groups first, because only root may change them.
  bool BecomeUser() {
    if (!task_.user) return true;
    const auto& [uid, gid, groups] = *task_.user;
    // The daemon's keys (keyrings(7)) would be the rank's, too. A kernel without keys has none.
    (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr);
    return setgroups(groups.size(), groups.data()) == 0 && setresgid(gid, gid, gid) == 0 &&
           setresuid(uid, uid, uid) == 0 && getgid() == gid && getuid() == uid;  // -1 sets nothing
  }

  void LimitDescriptors() {
    rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || task_.descriptors > limit.rlim_max) return;
    limit.rlim_cur = task_.descriptors;
    setrlimit(RLIMIT_NOFILE, &limit);
  }

  bool JoinCgroups() {
    for (const std::string& cgroup : task_.cgroups) {
      if (!JoinCgroup(cgroup)) return false;
    }
    return true;
  }

  // Watches the cgroup only while the guard kills. Before that the rank is the guard's child, and
  // whatever the rank does with cgroups wakes nobody.
  void Wait() {
    pollfd fds[] = {{daemon_, POLLIN, 0},
                    {child_ended_, POLLIN, 0},
                    {exec_outcome_, POLLIN, 0},
                    {killing_ && cgroup_ ? cgroup_->fd() : -1, POLLPRI, 0}};
    poll(fds, std::size(fds), killing_ ? kSearchAgainMs : -1);
    if (fds[3].revents != 0) (void)cgroup_->Populated();  // else poll() returns at once for ever
    if (fds[0].revents != 0) TakeOrder();
    if (fds[1].revents != 0) DrainSignals();
    if (fds[2].revents != 0) TakeExecOutcome();
  }

  void TakeOrder() {
    GuardOrder order;
    const ssize_t size = recv(daemon_, &order, sizeof(order), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size != sizeof(order)) {  // the daemon is gone
      daemon_ = -1;
      killing_ = true;
    } else if (order == GuardOrder::kKill) {
      killing_ = true;
    } else if (rank_ > 0) {
      terminated_ = true;
      kill(rank_, SIGTERM);
      kill(rank_, SIGCONT);  // a stopped process handles no SIGTERM
    }
  }

  void DrainSignals() {
    signalfd_siginfo info;
    while (read(child_ended_, &info, sizeof(info)) == sizeof(info)) {
    }
  }

  void TakeExecOutcome() {
    GuardMessage message{};
    const ssize_t size = read(exec_outcome_, &message, sizeof(message));
    started_ = size < static_cast<ssize_t>(sizeof(message.news));
    close(exec_outcome_);
    exec_outcome_ = -1;
    if (started_) return Tell({GuardNews::What::kStarted, rank_});
    Send(&message, static_cast<size_t>(size));
  }

  // Reaps dead children, inherited ones too. Returns false when no children are left.
  bool Reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid < 0) return errno != ECHILD;
      if (pid == 0) return true;
      if (pid == rank_) RankEnded(status);
    }
  }

  void RankEnded(int status) {
    if (exec_outcome_ >= 0) TakeExecOutcome();
    rank_ = 0;
    killing_ = true;
    if (!started_) return;
    if (WIFSIGNALED(status)) {
      Tell({GuardNews::What::kSignalled, WTERMSIG(status)});
    } else {
      Tell({GuardNews::What::kExited, WEXITSTATUS(status)});
    }
    Record(status);
  }

  // An exit after the first SIGKILL is not recorded, whatever its code: a shell whose child was
  // killed may still exit with 0. The guard kills before it writes, because leftover processes must
  // not run on while a disk syncs.
  void Record(int status) {
    if (task_.exit_file.empty() || killed_) return;
    KillAll();
    const bool signalled = WIFSIGNALED(status);
    ExitRecord record{.stopped = terminated_};
    record.exit = signalled ? Exit{Exit::How::kSignal, WTERMSIG(status)}
                            : Exit{Exit::How::kCode, WEXITSTATUS(status)};
    record.oom = record.exit == Exit{Exit::How::kSignal, SIGKILL} && OutOfMemory();
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    record.at_unix_nanos = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    WriteExitRecord(task_.exit_file, record);
  }

  bool OutOfMemory() const {
    return std::any_of(task_.cgroups.begin(), task_.cgroups.end(), [](const std::string& cgroup) {
      return OomKillsIn(cgroup).value_or(0) > 0;
    });
  }

  void Tell(const GuardNews& news) { Send(&news, sizeof(news)); }

  void Send(const void* message, size_t size) {
    // A dead daemon hears nothing; TakeOrder then sees the closed socket.
    (void)!send(kGuardSocket, message, size, MSG_NOSIGNAL);
  }

  const Task task_;
  std::optional<CgroupWatch> cgroup_;
  int daemon_ = kGuardSocket;
  int child_ended_ = -1;
  int exec_outcome_ = -1;
  std::string why_not_;  // in the child: the text of its news
  pid_t rank_ = 0;
  bool started_ = false;
  bool terminated_ = false;  // SIGTERM went to the rank
  bool killing_ = false;
  bool killed_ = false;  // the first SIGKILL has been sent
};

// Null if the argument is not this option.
const char* ValueOf(const char* option, const char* argument) {
  const size_t size = std::strlen(option);
  return std::strncmp(argument, option, size) == 0 ? argument + size : nullptr;
}

// The words of "UID:GID:GROUP,GROUP" are numbers that the daemon has written.
User UserFrom(const char* text) {
  char* at = nullptr;
  User user;
  user.uid = static_cast<uid_t>(std::strtoul(text, &at, 10));
  user.gid = static_cast<gid_t>(std::strtoul(at + 1, &at, 10));
  while (*at != '\0' && at[1] != '\0') {
    user.groups.push_back(static_cast<gid_t>(std::strtoul(at + 1, &at, 10)));
  }
  return user;
}

// Returns false if the argument is no option about mounts.
bool TakeMountOption(const char* argument, Task* task) {
  if (const char* private_tmp = ValueOf(kGuardPrivateTmp, argument)) {
    task->mounts.private_tmp = private_tmp;
  } else if (const char* writable = ValueOf(kGuardWritable, argument)) {
    task->mounts.writable.emplace_back(writable);
  } else if (const char* shown = ValueOf(kGuardShown, argument)) {
    task->mounts.shown.emplace_back(shown);
  } else if (std::strcmp(argument, kGuardReadOnlyRoot) == 0) {
    task->mounts.read_only_root = true;
  } else if (std::strcmp(argument, kGuardTryMounts) == 0) {
    task->try_mounts = true;
  } else {
    return false;
  }
  return true;
}

// Returns the exit code.
int TryMounts(const Task& task) {
  const auto fault = Confine(task.mounts, task.user.has_value());
  if (!fault) return 0;
  std::fprintf(stderr, "%s: %s\n", fault->step.c_str(), std::strerror(fault->error));
  return 1;
}

// Without a program if the arguments are wrong.
Task TaskFrom(char** arguments) {
  Task task;
  if (*arguments == nullptr) return task;
  task.descriptors = std::strtoul(*arguments++, nullptr, 10);
  for (; *arguments != nullptr; ++arguments) {
    if (const char* cgroup = ValueOf(kGuardCgroup, *arguments)) {
      task.cgroups.emplace_back(cgroup);
    } else if (const char* exit_file = ValueOf(kGuardExitFile, *arguments)) {
      task.exit_file = exit_file;
    } else if (const char* user = ValueOf(kGuardUser, *arguments)) {
      task.user = UserFrom(user);
    } else if (const char* directory = ValueOf(kGuardDirectory, *arguments)) {
      task.directory = directory;
    } else if (TakeMountOption(*arguments, &task)) {
      continue;
    } else if (const char* pattern = ValueOf(kGuardAllowProgram, *arguments)) {
      task.allowed_programs.emplace_back(pattern);
    } else if (std::strcmp(*arguments, kGuardNewPrivileges) == 0) {
      task.new_privileges = true;
    } else if (std::strcmp(*arguments, kGuardNoCore) == 0) {
      task.no_core = true;
    } else {
      break;
    }
  }
  // A daemon of an earlier release leaves it out.
  if (*arguments != nullptr && std::strcmp(*arguments, kGuardOptionsEnd) == 0) ++arguments;
  task.command = arguments;
  return task;
}

}  // namespace
}  // namespace dp::worker

#ifdef __SANITIZE_ADDRESS__
// The search for leaks at a program's end stops the program by SIGSTOP. The daemon's SIGCONT to a
// guard that may be stopped would undo that, and the search would wait forever.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

int main(int, char** argv) {
  const bool help = argv[1] != nullptr && std::strcmp(argv[1], "--help") == 0;
  dp::worker::Task task = dp::worker::TaskFrom(argv + 1);
  if (task.try_mounts) return dp::worker::TryMounts(task);
  if (help || task.command == nullptr || *task.command == nullptr) {
    std::fprintf(help ? stdout : stderr,
                 "usage: dp-guard DESCRIPTORS [--cgroup=DIRECTORY...] [--exit-file=PATH] "
                 "[--user=UID:GID:GROUPS] [--directory=PATH] [--new-privileges] [--no-core] "
                 "[--private-tmp=DIRECTORY] [--read-only-root] [--writable=PATH...] "
                 "[--shown=PATH...] [--allow-program=PATTERN...] -- PROGRAM [ARGUMENT...]; started "
                 "by dp-worker\n");
    return help ? 0 : 2;
  }
  dp::worker::Guard guard(std::move(task));
  if (guard.Run()) return 0;
  std::fprintf(stderr, "dp-guard: %s\n", std::strerror(errno));
  return 1;
}

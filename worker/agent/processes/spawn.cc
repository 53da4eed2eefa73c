#include "worker/agent/processes/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "worker/agent/processes/guard_protocol.h"

namespace dp::worker {
namespace {

// The guard's standard streams are the rank's files; the guard passes them on.
class FileActions {
 public:
  FileActions(const RankCommand& command, int socket, int lock) {
    // The rank's user owns the files, and could let this process wait for one by a lease
    // (fcntl(2)).
    constexpr int kAppend = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK;
    DP_CHECK(posix_spawn_file_actions_init(&actions_) == 0);
    DP_CHECK(lock < 0 || lock > kGuardLockFd);  // else the socket could take its place
    posix_spawn_file_actions_adddup2(&actions_, socket, kGuardSocket);
    if (lock >= 0) posix_spawn_file_actions_adddup2(&actions_, lock, kGuardLockFd);
    posix_spawn_file_actions_addclosefrom_np(&actions_,
                                             (lock >= 0 ? kGuardLockFd : kGuardSocket) + 1);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, 1, command.stdout_path.c_str(), kAppend, 0600);
    posix_spawn_file_actions_addopen(&actions_, 2, command.stderr_path.c_str(), kAppend, 0600);
  }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// No signal is blocked or ignored, whatever this process does with its own signals.
class Attributes {
 public:
  Attributes() {
    sigset_t all;
    sigset_t none;
    sigfillset(&all);
    sigemptyset(&none);
    DP_CHECK(posix_spawnattr_init(&attributes_) == 0);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// The form in which exec takes lists of strings. exec does not change the strings.
std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& each : strings) pointers.push_back(const_cast<char*>(each.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The rank's variables, as its guard takes them.
std::vector<std::string> ForGuard(std::vector<std::string> environment) {
  for (std::string& each : environment) {
    if (!each.empty()) each[0] = static_cast<char>(each[0] | kGuardVariableBit);
  }
  return environment;
}

// The guard's argument.
std::string UserArgument(const Account& account) {
  return absl::StrCat(kGuardUser, account.uid, ":", account.gid, ":",
                      absl::StrJoin(account.groups, ","));
}

}  // namespace

std::vector<std::string> MountArguments(const RankMounts& mounts) {
  std::vector<std::string> arguments;
  if (!mounts.any()) return arguments;
  if (!mounts.private_tmp.empty()) arguments.push_back(kGuardPrivateTmp + mounts.private_tmp);
  if (mounts.read_only_root) arguments.emplace_back(kGuardReadOnlyRoot);
  for (const std::string& each : mounts.writable) arguments.push_back(kGuardWritable + each);
  for (const std::string& each : mounts.shown) arguments.push_back(kGuardShown + each);
  return arguments;
}

absl::StatusOr<SpawnedGuard> SpawnGuard(const std::string& guard_path,
                                        const Confinement& confinement,
                                        const RankCommand& command) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::InternalError(absl::StrCat("socket for a guard: ", std::strerror(errno)));
  }
  SpawnedGuard guard{.socket = FileDescriptor(ends[0])};
  const FileDescriptor theirs(ends[1]);

  std::vector<std::string> argv{guard_path, absl::StrCat(confinement.descriptors)};
  for (const std::string& cgroup : confinement.cgroups) argv.push_back(kGuardCgroup + cgroup);
  if (!command.exit_path.empty()) argv.push_back(kGuardExitFile + command.exit_path);
  if (command.run_as) argv.push_back(UserArgument(*command.run_as));
  if (!command.working_dir.empty()) argv.push_back(kGuardDirectory + command.working_dir);
  if (command.new_privileges) argv.emplace_back(kGuardNewPrivileges);
  if (command.no_core) argv.emplace_back(kGuardNoCore);
  const std::vector<std::string> mounts = MountArguments(command.mounts);
  argv.insert(argv.end(), mounts.begin(), mounts.end());
  for (const std::string& each : command.allowed_programs) {
    argv.push_back(kGuardAllowProgram + each);
  }
  argv.emplace_back(kGuardOptionsEnd);
  argv.insert(argv.end(), command.argv.begin(), command.argv.end());
  const std::vector<std::string> environment = ForGuard(command.environment);
  const int error =
      posix_spawn(&guard.pid, guard_path.c_str(),
                  FileActions(command, theirs.get(), confinement.guard_lock).get(),
                  Attributes().get(), Pointers(argv).data(), Pointers(environment).data());
  if (error == 0) return guard;
  const std::string message =
      absl::StrCat("cannot start ", guard_path, " for ", command.argv.front(), " writing to ",
                   command.stdout_path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::InternalError(message);
}

}  // namespace dp::worker

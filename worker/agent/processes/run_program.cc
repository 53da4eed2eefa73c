#include "worker/agent/processes/run_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"

namespace dp::worker {
namespace {

constexpr size_t kOutputBytesMax = 16 << 10;
// A process that waits within a driver ends only when the driver answers, even if it is killed.
constexpr absl::Duration kKillPatience = absl::Seconds(5);

// A program's deadline, and the clock that measures it.
struct Deadline {
  const Clock& clock;
  absl::Time at;

  absl::Duration left() const { return at - clock.Now(); }
};

bool AwaitReadable(int fd, const Deadline& deadline) {
  pollfd wanted{fd, POLLIN, 0};
  const int64_t wait_ms = absl::ToInt64Milliseconds(deadline.left());
  return wait_ms > 0 && poll(&wanted, 1, static_cast<int>(wait_ms)) > 0;
}

// The output until the other end is closed or the deadline passes. Also reads what exceeds the
// bound, so that the program does not block, but drops it.
std::string ReadAll(const FileDescriptor& from, const Deadline& deadline) {
  std::string text;
  while (AwaitReadable(from.get(), deadline)) {
    char bytes[512];
    const ssize_t size = read(from.get(), bytes, sizeof(bytes));
    if (size <= 0) break;
    text.append(bytes, std::min(static_cast<size_t>(size), kOutputBytesMax - text.size()));
  }
  return text;
}

absl::StatusOr<pid_t> SpawnInto(std::vector<std::string>& argv, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  std::vector<char*> pointers;
  for (std::string& each : argv) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, argv[0].c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  return absl::UnavailableError(absl::StrCat(argv[0], ": ", std::strerror(error)));
}

// Closing its output does not end a program: it is killed if it still runs at the deadline.
void AwaitEnd(pid_t pid, const Deadline& deadline, ProgramEnd* end) {
  const FileDescriptor ended(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  end->timed_out = ended.valid() ? !AwaitReadable(ended.get(), deadline)
                                 : deadline.left() <= absl::ZeroDuration();
  kill(pid, SIGKILL);
  if (end->timed_out && ended.valid()) {
    const Deadline at_last{deadline.clock, deadline.clock.Now() + kKillPatience};
    if (!AwaitReadable(ended.get(), at_last)) return;
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return;
  if (WIFEXITED(status)) end->exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status) && !end->timed_out) end->signal = WTERMSIG(status);
}

}  // namespace

absl::StatusOr<ProgramEnd> RunProgram(std::vector<std::string> argv, absl::Duration patience,
                                      const Clock& clock) {
  const Deadline deadline{clock, clock.Now() + patience};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const FileDescriptor ours(ends[0]);
  FileDescriptor theirs(ends[1]);
  const absl::StatusOr<pid_t> pid = SpawnInto(argv, theirs.get());
  if (!pid.ok()) return pid.status();
  theirs.Close();
  ProgramEnd end;
  end.output = ReadAll(ours, deadline);
  AwaitEnd(*pid, deadline, &end);
  return end;
}

}  // namespace dp::worker

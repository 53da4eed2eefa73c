#include "client/dpctl/local/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/limits.h"
#include "base/status.h"

namespace dp::ctl {
namespace {

// The line with a server's address is short.
constexpr size_t kLineBytesMax = 4096;

// The variables of dp that describe the machine, and so count for any cluster on it.
constexpr absl::string_view kOfTheMachine[] = {"DP_CUDA_PLAN_CACHE", "DP_PROCESS_TRACKING"};

bool IsPassedOn(absl::string_view variable) {
  const absl::string_view name = variable.substr(0, variable.find('='));
  return !absl::StartsWith(name, kReservedVariables) ||
         std::find(std::begin(kOfTheMachine), std::end(kOfTheMachine), name) !=
             std::end(kOfTheMachine);
}

// For exec; ends with null.
std::vector<char*> PassedOn(char* const* environment) {
  std::vector<char*> passed_on;
  for (; *environment != nullptr; ++environment)
    if (IsPassedOn(*environment)) passed_on.push_back(*environment);
  passed_on.push_back(nullptr);
  return passed_on;
}

// Runs in the child between fork and exec, so it makes only calls that are safe after a fork of a
// process with threads. `argv` and `environment` were made before.
[[noreturn]] void Become(char* const* argv, char* const* environment, int out, int errors,
                         pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  dup2(out, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execve(argv[0], argv, environment);
  const char text[] = ": cannot be executed\n";
  (void)!write(STDERR_FILENO, argv[0], strlen(argv[0]));  // nothing is left to do if this fails
  (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
  _exit(127);
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(
      std::clamp(duration, absl::ZeroDuration(), absl::Duration(absl::Hours(1)))));
}

// Waits for `fd` to be readable. Errors: DeadlineExceeded; Cancelled if `stop` is readable, which
// takes precedence. poll ignores a descriptor of -1.
absl::Status AwaitReadable(int fd, int stop, const Clock& clock, absl::Time until) {
  while (true) {
    pollfd ready[] = {{.fd = fd, .events = POLLIN, .revents = 0},
                      {.fd = stop, .events = POLLIN, .revents = 0}};
    const int count = poll(ready, 2, Milliseconds(until - clock.Now()));
    if (count == 0) return absl::DeadlineExceededError("it says nothing");
    if (count < 0) continue;  // interrupted by a signal
    return ready[1].revents != 0 ? absl::CancelledError("interrupted") : absl::OkStatus();
  }
}

absl::Status Unstartable(const std::string& program, const char* call) {
  return absl::InternalError(
      absl::StrCat(program, " cannot be started: ", call, ": ", strerror(errno)));
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& argv,
                                                 const std::string& errors, const Clock& clock) {
  std::vector<char*> raw;
  for (const std::string& argument : argv) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  const std::vector<char*> environment = PassedOn(environ);
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return Unstartable(argv[0], "pipe");
  const int err = open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const pid_t parent = getpid();
  const pid_t pid = err < 0 ? -1 : fork();
  if (pid == 0) Become(raw.data(), environment.data(), out[1], err, parent);
  const absl::Status failed = Unstartable(argv[0], err < 0 ? errors.c_str() : "fork");
  close(out[1]);
  if (err >= 0) close(err);
  if (pid < 0) {
    close(out[0]);
    return failed;
  }
  return ChildProcess(pid, static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), out[0], clock);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      pidfd_(other.pidfd_),
      out_(other.out_),
      line_(std::move(other.line_)),
      clock_(other.clock_) {}

ChildProcess::~ChildProcess() {
  if (pid_ != 0) Reap(/*kill_first=*/true);
}

absl::StatusOr<std::string> ChildProcess::FirstLine(absl::Duration timeout, int stop) {
  const absl::Time until = clock_.Now() + timeout;
  while (line_.size() < kLineBytesMax) {
    DP_RETURN_IF_ERROR(AwaitReadable(out_, stop, clock_, until));
    char c = 0;
    const ssize_t count = read(out_, &c, 1);
    if (count == 0) return absl::AbortedError("it ended at once");
    if (count < 0) continue;  // interrupted by a signal
    if (c == '\n') return line_;
    line_ += c;
  }
  return absl::AbortedError("its first line has no end");
}

absl::StatusOr<std::string> ChildProcess::AllOutput() {
  std::string output;
  char chunk[1 << 16];
  while (true) {
    const ssize_t count = read(out_, chunk, sizeof(chunk));
    if (count == 0) return output;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::InternalError(absl::StrCat("read: ", strerror(errno)));
    output.append(chunk, static_cast<size_t>(count));
  }
}

std::string ChildProcess::AwaitEnd() const {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  return HowItEnded();
}

std::string ChildProcess::HowItEnded() const {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return "ended";
  return absl::StrCat(info.si_code == CLD_EXITED ? "ended with exit code " : "was ended by signal ",
                      info.si_status);
}

void ChildProcess::Stop(absl::Duration grace) {
  if (pid_ == 0) return;
  kill(pid_, SIGTERM);
  // Without a pidfd there is no grace.
  const bool ended = pidfd_ >= 0 && AwaitReadable(pidfd_, -1, clock_, clock_.Now() + grace).ok();
  Reap(/*kill_first=*/!ended);
}

void ChildProcess::Reap(bool kill_first) {
  if (kill_first) kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  if (pidfd_ >= 0) close(pidfd_);
  close(out_);
}

}  // namespace dp::ctl

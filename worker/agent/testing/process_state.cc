#include "worker/agent/testing/process_state.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "worker/agent/processes/process_tree.h"

namespace dp::worker {
namespace {

constexpr absl::Duration kQuestionPatience = absl::Seconds(20);

int64_t TimesAsleepIn(const std::filesystem::path& status) {
  std::ifstream file(status);
  const std::string wanted = "voluntary_ctxt_switches:";
  for (std::string name; file >> name;) {
    int64_t count = 0;
    if (name == wanted && file >> count) return count;
  }
  return 0;
}

// Reads the timespec at this address of the process.
std::optional<int> MillisecondsAt(pid_t pid, uint64_t address) {
  timespec time{};
  const iovec here{&time, sizeof(time)};
  const iovec there{reinterpret_cast<void*>(address), sizeof(time)};
  if (process_vm_readv(pid, &here, 1, &there, 1, 0) != sizeof(time)) return std::nullopt;
  return static_cast<int>(absl::ToInt64Milliseconds(absl::DurationFromTimespec(time)));
}

bool ProbeCalls() {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  std::string line;
  const bool shown = static_cast<bool>(
      std::getline(std::ifstream(absl::StrCat("/proc/", child, "/syscall")), line));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return shown;
}

}  // namespace

std::optional<int> TimeoutOfPoll(pid_t pid) {
  // "running", or the number of the system call and its arguments: "7 0x7ffd0 0x4 0xffffffff ..."
  std::ifstream file(absl::StrCat("/proc/", pid, "/syscall"));
  int64_t number = -1;
  std::string fds, count, timeout;
  if (!(file >> number >> fds >> count >> timeout)) return std::nullopt;
  const uint64_t argument = std::stoull(timeout, nullptr, 16);
#ifdef SYS_poll
  if (number == SYS_poll) return static_cast<int>(argument);
#endif
  if (number != SYS_ppoll) return std::nullopt;
  return argument == 0 ? std::optional(-1) : MillisecondsAt(pid, argument);
}

bool CallsAreShown() {
  static const bool shown = ProbeCalls();
  return shown;
}

pid_t OnlyChild() {
  const std::vector<pid_t> children = Children(getpid());
  DP_CHECK(children.size() == 1);
  return children.front();
}

bool IsStopped(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string number, name, state;
  return (file >> number >> name >> state) && state == "T";
}

int64_t TimesAsleep(pid_t pid) {
  int64_t sum = 0;
  for (const auto& thread :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"))) {
    sum += TimesAsleepIn(thread.path() / "status");
  }
  return sum;
}

bool Eventually(const std::function<bool()>& question) {
  const absl::Time deadline = absl::Now() + kQuestionPatience;
  while (!question()) {
    if (absl::Now() > deadline) return false;
    sched_yield();
  }
  return true;
}

}  // namespace dp::worker

#include "worker/agent/testing/process_state.h"

#include <sched.h>
#include <sys/syscall.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

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

}  // namespace

std::optional<int> TimeoutOfPoll(pid_t pid) {
  // "running", or the number of the system call and its arguments: "7 0x7ffd0 0x4 0xffffffff ..."
  std::ifstream file(absl::StrCat("/proc/", pid, "/syscall"));
  int64_t number = -1;
  std::string fds, count, timeout;
  if (!(file >> number >> fds >> count >> timeout) || number != SYS_poll) return std::nullopt;
  return static_cast<int>(std::stoull(timeout, nullptr, 16));
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

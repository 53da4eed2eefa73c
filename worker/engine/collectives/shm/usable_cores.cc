#include "worker/engine/collectives/shm/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace dp::engine {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// In a container of its own cgroup namespace the path is "/", which names the container's cgroup.
// Quotas of the cgroups above are not looked at: spinning is bounded anyway.
int QuotaOfOwnCgroup() {
  for (const absl::string_view line : absl::StrSplit(TextOf("/proc/self/cgroup"), '\n')) {
    absl::string_view path = line;
    if (!absl::ConsumePrefix(&path, "0::")) continue;
    return CoresOfQuota(TextOf(absl::StrCat("/sys/fs/cgroup", path, "/cpu.max")));
  }
  return 0;
}

}  // namespace

int CoresOfQuota(absl::string_view cpu_max) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(cpu_max, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  int64_t quota = 0, period = 0;
  const bool limited = words.size() == 2 && absl::SimpleAtoi(words[0], &quota) &&
                       absl::SimpleAtoi(words[1], &period) && quota > 0 && period > 0;
  if (!limited) return 0;
  return static_cast<int>(std::min<int64_t>(quota / period + (quota % period != 0), CPU_SETSIZE));
}

int UsableCores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  // A host with more cores than the mask holds has enough of them.
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return CPU_SETSIZE;
  const int cores = std::max(CPU_COUNT(&mask), 1);
  const int paid = QuotaOfOwnCgroup();
  return paid > 0 ? std::min(cores, paid) : cores;
}

}  // namespace dp::engine

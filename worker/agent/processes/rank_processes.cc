#include "worker/agent/processes/rank_processes.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/agent/processes/process_tree.h"

namespace dp::worker {
namespace {

// The kernel numbers v2 cgroups by the inodes of their directories.
uint64_t CgroupId(const std::string& dir) {
  struct stat found {};
  return stat(dir.c_str(), &found) == 0 ? found.st_ino : 0;
}

bool HoldsSocket(pid_t pid, const std::string& link) {
  const std::string dir = absl::StrCat("/proc/", pid, "/fd/");
  const std::unique_ptr<DIR, int (*)(DIR*)> descriptors(opendir(dir.c_str()), closedir);
  if (descriptors == nullptr) return errno == EACCES || errno == EPERM;
  char target[64];
  while (const dirent* entry = readdir(descriptors.get())) {
    const ssize_t size = readlink(absl::StrCat(dir, entry->d_name).c_str(), target, sizeof(target));
    if (size > 0 && link == std::string(target, size)) return true;
  }
  return false;
}

}  // namespace

void RankProcesses::BeginIn(const RankKey& key, const std::string& dir) {
  const uint64_t cgroup = CgroupId(dir);
  const MutexLock lock(mu_);
  ranks_[key].cgroup = cgroup;
}

void RankProcesses::BeginUnder(const RankKey& key, pid_t guard) {
  const MutexLock lock(mu_);
  ranks_[key].guard = guard;
}

void RankProcesses::End(const RankKey& key) {
  const MutexLock lock(mu_);
  ranks_.erase(key);
}

bool RankProcesses::Hold(JobId job, Generation generation, const SocketId& socket) const {
  if (const auto held = ByCgroup(job, generation, socket.cgroup)) return *held;
  const std::string link = absl::StrCat("socket:[", socket.inode, "]");
  const auto holds = [&link](pid_t pid) { return HoldsSocket(pid, link); };
  const std::vector<pid_t> known = GuardsOf(job, generation);
  const auto quick = QuickTree(known);
  if (quick.has_value() && std::any_of(quick->begin(), quick->end(), holds)) return true;
  std::vector<pid_t> guards = Children(getpid());
  std::erase_if(guards, [&](pid_t each) { return IsOfOthers(job, generation, each); });
  const std::vector<pid_t> processes = Descendants({guards.begin(), guards.end()});
  return std::any_of(processes.begin(), processes.end(), holds);
}

std::vector<pid_t> RankProcesses::GuardsOf(JobId job, Generation generation) const {
  const MutexLock lock(mu_);
  std::vector<pid_t> guards;
  for (const auto& [key, begun] : ranks_) {
    if (key.job == job && key.generation == generation && begun.guard > 0) {
      guards.push_back(begun.guard);
    }
  }
  return guards;
}

std::optional<bool> RankProcesses::ByCgroup(JobId job, Generation generation,
                                            uint64_t cgroup) const {
  const MutexLock lock(mu_);
  for (const auto& [key, begun] : ranks_) {
    if (cgroup == 0 || begun.cgroup != cgroup) continue;
    return key.job == job && key.generation == generation;
  }
  return std::nullopt;
}

bool RankProcesses::IsOfOthers(JobId job, Generation generation, pid_t guard) const {
  const MutexLock lock(mu_);
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& rank) {
    const auto& [key, begun] = rank;
    return begun.guard == guard && (key.job != job || key.generation != generation);
  });
}

}  // namespace dp::worker
